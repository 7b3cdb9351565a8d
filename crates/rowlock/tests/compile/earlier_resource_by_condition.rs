//! `lock_where`, `guard_creation` and `pass` are held to the order as `lock` is.

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

async fn by_condition(tx: Tx<Account>) -> Result<Tx<Order>> {
    tx.lock_where::<Order>("id < 10").await
}

async fn to_create(tx: Tx<Account>) -> Result<Tx<Order>> {
    tx.guard_creation::<Order>([10]).await
}

fn onwards(tx: Tx<Account>) -> Tx<Order> {
    tx.pass::<Order>()
}

fn main() {}
