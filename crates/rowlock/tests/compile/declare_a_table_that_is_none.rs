//! A name that no table can have.

rowlock::lock_order! {
    pub order Shop {
        Order => "app.sales.orders" (id: i64),
    }
}

fn main() {}
