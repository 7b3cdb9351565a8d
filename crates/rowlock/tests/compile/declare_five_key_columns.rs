//! A key of more columns than a tuple has.

rowlock::lock_order! {
    pub order Shop {
        Line => "lines" (a: i64, b: i64, c: i64, d: i64, e: i64),
    }
}

fn main() {}
