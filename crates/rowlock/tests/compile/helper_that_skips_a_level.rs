//! A level before `Order` is not known to be before `Inventory`: `tx.pass::<Order>()` goes there first.

use rowlock::{Before, Result};
use sqlx::Postgres;

type Tx<L> = rowlock::Tx<Postgres, L>;

rowlock::lock_order! {
    pub order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Account   => "accounts"    (id: i64),
    }
}

async fn reserve<L: Before<Order>>(tx: Tx<L>, items: &[i64]) -> Result<Tx<Inventory>> {
    tx.lock::<Inventory>(items).await
}

fn main() {}
