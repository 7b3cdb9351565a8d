//! Nothing says which error the closure returns: the message names types that a caller can write.

rowlock::lock_order! {
    pub order Shop {
        Order => "orders" (id: i64),
    }
}

async fn touch(db: &rowlock::Db<sqlx::Sqlite>) {
    let _ = db
        .transaction(async |tx| {
            tx.lock::<Order>([10]).await?;
            Ok(())
        })
        .await;
}

fn main() {
    let _ = touch;
}
