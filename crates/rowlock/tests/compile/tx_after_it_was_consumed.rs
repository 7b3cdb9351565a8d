//! `lock` takes the transaction and gives it back at its new level; the old one is gone.

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
    db.transaction(async |mut tx| {
        tx.lock::<Order>([10]).await?;
        sqlx::query("update orders set status = 'paid' where id = 10").execute(&mut tx).await?;
        Ok(())
    })
    .await
}

fn main() {}
