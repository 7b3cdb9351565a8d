//! A resource with the name of the order.

rowlock::lock_order! {
    pub order Shop {
        Shop => "shops" (id: i64),
    }
}

fn main() {}
