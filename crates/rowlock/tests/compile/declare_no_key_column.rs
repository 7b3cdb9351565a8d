//! A resource without a key.

rowlock::lock_order! {
    pub order Shop {
        Order => "orders" (),
    }
}

fn main() {}
