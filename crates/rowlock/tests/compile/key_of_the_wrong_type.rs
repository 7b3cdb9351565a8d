//! A key of another type than the order declares.

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

async fn place(tx: Tx<Order>) -> Result<Tx<Order>> {
    tx.lock::<Order>(["10"]).await
}

fn main() {}
