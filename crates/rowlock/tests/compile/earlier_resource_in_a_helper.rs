//! The same through a helper, which says in its signature how far its caller may have come.

use rowlock::{Before, Db, Result};
use sqlx::Postgres;

type Tx<L> = rowlock::Tx<Postgres, L>;

rowlock::lock_order! {
    pub order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Account   => "accounts"    (id: i64),
    }
}

async fn reserve<L: Before<Inventory>>(tx: Tx<L>, items: &[i64]) -> Result<Tx<Inventory>> {
    tx.lock::<Inventory>(items).await
}

async fn place(db: &Db<Postgres>) -> Result<()> {
    db.transaction(async |tx| {
        let tx = tx.lock::<Account>([7]).await?;
        reserve(tx, &[20]).await?;
        Ok(())
    })
    .await
}

fn main() {}
