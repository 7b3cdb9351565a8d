//! A column whose values have no order that all processes agree on.

rowlock::lock_order! {
    pub order Shop {
        Rate => "rates" (id: f64),
    }
}

fn main() {}
