//! A resource without the parentheses of its key.

rowlock::lock_order! {
    pub order Shop {
        Order => "orders",
    }
}

fn main() {}
