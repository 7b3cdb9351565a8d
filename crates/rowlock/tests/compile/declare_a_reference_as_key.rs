//! A key that borrows.

rowlock::lock_order! {
    pub order Shop {
        User => "users" (email: &str),
    }
}

fn main() {}
