//! What the closure holds over an await must be `Send`, since the transaction may move between threads.

use std::rc::Rc;

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
        let note = Rc::new(10);
        tx.lock::<Order>([*note]).await?;
        drop(note);
        Ok(())
    })
    .await
}

fn main() {}
