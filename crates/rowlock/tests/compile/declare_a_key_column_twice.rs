//! A key with one column twice.

rowlock::lock_order! {
    pub order Shop {
        Line => "lines" (id: i64, id: i64),
    }
}

fn main() {}
