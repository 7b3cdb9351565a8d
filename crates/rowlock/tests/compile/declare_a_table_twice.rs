//! Two resources of one table.

rowlock::lock_order! {
    pub order Shop {
        Order => "orders" (id: i64),
        Purchase => "Orders" (id: i64),
    }
}

fn main() {}
