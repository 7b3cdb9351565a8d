//! A composite key takes borrowed columns, each of its own type.

use rowlock::{Result, Start};

rowlock::lock_order! {
    pub order Shop {
        User => "users" (tenant: String, id: i32),
    }
}
type Tx<L> = rowlock::Tx<sqlx::Sqlite, L>;

async fn borrowed(tx: Tx<Start>, tenant: &str) -> Result<Tx<User>> {
    tx.lock::<User>([(tenant, 1)]).await
}

async fn wrong(tx: Tx<Start>) -> Result<Tx<User>> {
    tx.lock::<User>([("a", "1")]).await
}

fn main() {
    let _ = (borrowed, wrong);
}
