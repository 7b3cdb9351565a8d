//! Two resources without a comma.

rowlock::lock_order! {
    pub order Shop {
        Order => "orders" (id: i64)
        Inventory => "inventories" (id: i64)
    }
}

fn main() {}
