//! A slip in the word `order`.

rowlock::lock_order! {
    pub ordering Shop {
        Order => "orders" (id: i64),
    }
}

fn main() {}
