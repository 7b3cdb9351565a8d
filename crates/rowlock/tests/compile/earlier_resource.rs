//! A resource that is declared before the one that the transaction has reached.

use rowlock::{Db, Result};
use sqlx::Postgres;

rowlock::lock_order! {
    pub order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Account   => "accounts"    (id: i64),
    }
}

async fn place(db: &Db<Postgres>) -> Result<()> {
    db.transaction(async |tx| {
        let tx = tx.lock::<Inventory>([20]).await?;
        tx.lock::<Order>([10]).await?;
        Ok(())
    })
    .await
}

fn main() {}
