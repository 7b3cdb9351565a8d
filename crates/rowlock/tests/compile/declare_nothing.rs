//! An order of nothing.

rowlock::lock_order! {
    pub order Shop {}
}

fn main() {}
