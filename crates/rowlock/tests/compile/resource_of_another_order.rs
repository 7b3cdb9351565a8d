//! A resource of another order has no place in this one.

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
rowlock::lock_order! { pub order Other { Invoice => "invoices" (id: i64) } }

async fn place(tx: Tx<Order>) -> Result<Tx<Invoice>> {
    tx.lock::<Invoice>([1]).await
}

fn main() {}
