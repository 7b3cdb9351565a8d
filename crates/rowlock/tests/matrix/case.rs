//! The cases: naive schedules, and how they end on each engine.

use rowlock_testing::{Engine, Family};

/// How a naive schedule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server ends one transaction to break a deadlock, with its own code.
    Deadlock,
    /// A statement fails with this code.
    Error(&'static str),
    /// A statement waits, and goes on when the other transaction has ended.
    Blocks,
    /// Nobody waits.
    Harmless,
}
use Ending::{Blocks, Deadlock, Error, Harmless};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// `session: statement` lines. What stands in braces becomes the engine's own words.
    pub(crate) naive: &'static str,
    pub(crate) postgres: Ending,
    pub(crate) mariadb: Ending,
    pub(crate) mysql: Ending,
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "opposite resources",
        naive: "api: begin
                webhook: begin
                api: update orders set n = n + 1 where id = 10
                webhook: update inventories set n = n - 1 where id = 20
                api: update inventories set n = n - 1 where id = 20
                webhook: update orders set n = n + 1 where id = 10",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "opposite keys",
        naive: "api: begin
                webhook: begin
                api: select * from inventories where id = 20 for update
                webhook: select * from inventories where id = 30 for update
                api: select * from inventories where id = 30 for update
                webhook: select * from inventories where id = 20 for update",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        // One statement each. A third transaction holds the row in the middle until both have their first.
        name: "IN (105, 42) against IN (42, 105)",
        naive: "between: begin
                between: update inventories set n = n where id = 70
                {forward}
                {backward}
                forward: begin
                backward: begin
                forward: select id from inventories where id in (105, 70, 42){in order} for update
                backward: select id from inventories where id in (42, 70, 105){against it} for update
                between: commit",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "a helper in order after an UPDATE out of order",
        naive: "api: begin
                batch: begin
                api: update inventories set n = n - 1 where id = 20
                batch: select * from orders where id = 10 for update
                api: select * from orders where id = 10 for update
                batch: select * from inventories where id = 20 for update",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "several orders in one transaction",
        naive: "batch: begin
                mirror: begin
                batch: select * from orders where id = 10 for update
                batch: select * from inventories where id = 20 for update
                mirror: select * from orders where id = 11 for update
                mirror: select * from inventories where id = 30 for update
                batch: select * from orders where id = 11 for update
                mirror: select * from orders where id = 10 for update",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "shared then exclusive",
        naive: "a: begin
                b: begin
                a: select * from inventories where id = 20 {for share}
                b: select * from inventories where id = 20 {for share}
                a: update inventories set n = n - 1 where id = 20
                b: update inventories set n = n - 1 where id = 20",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "a child's insert beside an update of the parent",
        naive: "a: begin
                b: begin
                a: insert into order_lines (id, item, n) values (1, 20, 1)
                b: update inventories set n = n - 1 where id = 20",
        postgres: Harmless,
        mariadb: Blocks,
        mysql: Blocks,
    },
    Case {
        // PostgreSQL: the second update waits for the first, as any two do.
        name: "a child's insert, then UPDATE of the parent",
        naive: "a: begin
                b: begin
                a: insert into order_lines (id, item, n) values (1, 20, 1)
                b: insert into order_lines (id, item, n) values (2, 20, 1)
                a: update inventories set n = n - 1 where id = 20
                b: update inventories set n = n - 1 where id = 20",
        postgres: Blocks,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "FOR UPDATE of a missing row, then INSERT",
        naive: "a: begin
                b: begin
                a: select * from orders where id = 500 for update
                b: select * from orders where id = 500 for update
                a: insert into orders (id, n) values (500, 1)
                b: insert into orders (id, n) values (500, 1)
                a: commit",
        postgres: Error("23505"),
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        name: "upserts of new rows in opposite orders",
        naive: "a: begin
                b: begin
                a: insert into orders (id, n) values (500, 1) {or update}
                b: insert into orders (id, n) values (400, 1) {or update}
                a: insert into orders (id, n) values (400, 1) {or update}
                b: insert into orders (id, n) values (500, 1) {or update}",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        // One statement each; a third transaction has made the row in the middle until both have their first.
        name: "one INSERT of several new rows each, in opposite orders",
        naive: "between: begin
                between: insert into orders (id, n) values (850, 1)
                a: begin
                b: begin
                a: insert into orders (id, n) values (900, 1), (850, 1), (800, 1)
                b: insert into orders (id, n) values (800, 1), (900, 1)
                between: rollback",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Deadlock,
    },
    Case {
        // InnoDB: `b` waits for its first lock already. Then MariaDB lets nobody past it, `a` neither; MySQL does.
        name: "NO KEY UPDATE, then DELETE",
        naive: "a: begin
                b: begin
                a: select * from inventories where id = 30 {for key share}
                b: select * from inventories where id = 30 {for no key update}
                a: update inventories set n = n - 1 where id = 30
                {then delete}",
        postgres: Deadlock,
        mariadb: Deadlock,
        mysql: Blocks,
    },
];

impl Case {
    pub(crate) fn ending(&self, engine: Engine) -> Ending {
        match engine {
            Engine::MariaDb => self.mariadb,
            Engine::MySql => self.mysql,
            _ => self.postgres,
        }
    }

    pub(crate) fn schedule(&self, engine: Engine) -> String {
        let share = if engine == Engine::MariaDb { "lock in share mode" } else { "for share" };
        let words: &[(&str, &str)] = match engine.family() {
            Family::Postgres => &[
                ("{for share}", "for share"),
                ("{for key share}", "for key share"),
                ("{for no key update}", "for no key update"),
                // An index scan goes by key, a scan of the table by where the rows lie: 105, 70, 42 (ground.rs).
                ("{forward}", "forward: set enable_seqscan = off\nforward: set enable_bitmapscan = off"),
                ("{backward}", "backward: set enable_indexscan = off\nbackward: set enable_bitmapscan = off"),
                ("{or update}", "on conflict (id) do update set n = orders.n + 1"),
                ("{then delete}", "b: delete from inventories where id = 30"),
                ("{in order}", ""),
                ("{against it}", ""),
            ],
            _ => &[
                ("{for share}", share),
                ("{for key share}", share),
                ("{for no key update}", "for update"),
                ("{forward}", ""),
                ("{backward}", ""),
                ("{or update}", "on duplicate key update n = n + 1"),
                ("{then delete}", ""),
                ("{in order}", " order by id"),
                ("{against it}", " order by id desc"),
            ],
        };
        words.iter().fold(self.naive.to_owned(), |text, (word, with)| text.replace(word, with))
    }
}
