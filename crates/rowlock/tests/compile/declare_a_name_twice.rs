//! One name for two tables.

rowlock::lock_order! {
    pub order Shop {
        Order => "orders" (id: i64),
        Order => "old_orders" (id: i64),
    }
}

fn main() {}
