//! One branch locks and the other does not: `tx.pass::<Account>()` in the other makes them agree.

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

async fn charge(tx: Tx<Order>, paid: bool) -> Result<Tx<Account>> {
    let tx = if paid { tx } else { tx.lock::<Account>([7]).await? };
    Ok(tx)
}

fn main() {}
