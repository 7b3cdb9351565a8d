//! The one order in which everything in the shop locks.

rowlock::lock_order! {
    /// A line's position is its rank. Whatever touches these rows (API, batch, webhook) takes them from top to bottom, and
    /// within a table in the order of the keys.
    ///
    /// Orders come first, since what is to be done with the rest is read from them. Stock comes before accounts: an order
    /// is reserved, then paid. What is only ever written new (lines, transfers, payments, events) stands after what its
    /// foreign keys lock.
    pub order ShopOrder {
        Order => "orders" (id: i64),
        Inventory => "inventories" (id: i64),
        Line => "order_lines" (order_id: i64, line: i64),
        Account => "accounts" (id: i64),
        Transfer => "transfers" (id: i64),
        Payment => "payments" (order_id: i64),
        Event => "events" (id: String),
    }
}
