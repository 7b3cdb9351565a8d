//! A helper that is generic over the level and does not say how far its caller may have come.

use rowlock::Result;
use sqlx::Postgres;

type Tx<L> = rowlock::Tx<Postgres, L>;

rowlock::lock_order! {
    pub order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Account   => "accounts"    (id: i64),
    }
}

async fn reserve<L>(tx: Tx<L>, items: &[i64]) -> Result<Tx<Inventory>> {
    tx.lock::<Inventory>(items).await
}

fn main() {}
