//! What a statement has locked on the server, found out from another session.
//!
//! `SKIP LOCKED` leaves out just the rows on which `NOWAIT` would fail, so that one request a table and strength tries every
//! row. It cannot see new rows of PostgreSQL's; for those an insert of the same key is tried, which must wait.

use std::collections::{BTreeMap, BTreeSet};

use rowlock::Catalog;
use rowlock_footprint::{Schema, Strength};
use rowlock_testing::{Connection, Engine, Family, Session, TestDb};

rowlock::lock_order! {
    order Tables {
        Customer => "customers" (id: i64),
        Order    => "orders"    (id: i64),
        Item     => "items"     (id: i64),
        Line     => "order_lines"     (order_id: i64, line: i64),
        Note     => "notes"     (id: i64),
        Profile  => "profiles"  (customer: i64),
        Crate    => "boxes"     (id: i64),
        Code     => "codes"     (id: i64),
        Ref      => "refs"      (id: i64),
    }
}

/// A table: its columns, those of its key first (how many), and a row to try for a new key.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    pub(crate) key: usize,
    rest: &'static str,
}

pub(crate) const TABLES: &[Table] = &[
    Table { name: "customers", columns: &["id", "email", "n"], key: 1, rest: "'probe', 0" },
    Table { name: "orders", columns: &["id", "customer", "n"], key: 1, rest: "4, 0" },
    Table { name: "items", columns: &["id", "sku", "stock"], key: 1, rest: "'probe', 0" },
    Table { name: "order_lines", columns: &["order_id", "line", "item", "n"], key: 2, rest: "null, 0" },
    Table { name: "notes", columns: &["id", "item"], key: 1, rest: "null" },
    Table { name: "profiles", columns: &["customer", "bio"], key: 1, rest: "'probe'" },
    Table { name: "boxes", columns: &["id", "parent"], key: 1, rest: "null" },
    Table { name: "codes", columns: &["id", "a", "b"], key: 1, rest: "77, 77" },
    Table { name: "refs", columns: &["id", "sku"], key: 1, rest: "null" },
];

const SCHEMA: &str = "
    create table customers (id bigint not null primary key, email varchar(40) not null unique, n bigint not null);
    create table orders (id bigint not null primary key, customer bigint not null, n bigint not null,
        foreign key (customer) references customers (id));
    create table items (id bigint not null primary key, sku varchar(40) not null unique, stock bigint not null);
    create table order_lines (order_id bigint not null, line bigint not null, item bigint, n bigint not null,
        primary key (order_id, line), foreign key (order_id) references orders (id) on delete cascade,
        foreign key (item) references items (id));
    create table notes (id bigint not null primary key, item bigint,
        foreign key (item) references items (id) on delete set null);
    create table profiles (customer bigint not null primary key, bio varchar(40) not null,
        foreign key (customer) references customers (id) on delete cascade);
    create table boxes (id bigint not null primary key, parent bigint,
        foreign key (parent) references boxes (id) on delete cascade);
    create table codes (id bigint not null primary key, a bigint not null, b bigint, unique (a, b));
    create table refs (id bigint not null primary key, sku varchar(40),
        foreign key (sku) references items (sku) on update cascade);
    insert into customers values (1, 'c1', 0), (2, 'c2', 0), (3, 'c3', 0), (4, 'c4', 0), (5, 'c5', 0);
    insert into orders values (1, 1, 0), (2, 2, 0), (3, 3, 0);
    insert into items values (1, 's1', 1), (2, 's2', 2), (3, 's3', 3), (4, 's4', 4), (5, 's5', 5);
    insert into order_lines values (1, 1, 1, 1), (1, 2, 2, 1), (2, 1, 2, 1), (3, 1, 3, 1);
    insert into notes values (1, 4), (2, 4), (3, null);
    insert into profiles values (1, 'p1'), (2, 'p2'), (3, 'p3'), (5, 'p5');
    insert into boxes values (1, null), (2, 1), (3, 2), (4, null);
    insert into codes values (1, 1, 1), (2, 1, 2), (3, 2, null), (4, 2, null);
    insert into refs values (1, 's1'), (2, 's2'), (3, null)";

/// A row: its table and all of its values, as text.
pub(crate) type Row = (&'static str, Vec<Option<String>>);

/// What a statement did.
pub(crate) struct Truth {
    /// The rows that were there before it, with the strength at which each is held.
    pub(crate) before: BTreeMap<Row, Option<Strength>>,
    /// The rows that it made: there after it and not before, by their keys.
    pub(crate) made: BTreeSet<Row>,
    /// Those of `made` that nobody else can make: another insert of the key waits.
    pub(crate) guarded: BTreeSet<Row>,
}

pub(crate) struct Server {
    test: TestDb,
    session: Session,
    probe: Connection,
    rows: BTreeSet<Row>,
    /// How many locked rows the server's own view has shown.
    pub(crate) witnessed: usize,
}

impl Server {
    pub(crate) async fn start(test: &TestDb) -> Server {
        test.execute(SCHEMA).await;
        let (mut session, mut probe) = (test.session("statement").await, test.connect().await);
        if test.engine() == Engine::Pg15 {
            test.execute("create extension pgrowlocks").await;
        }
        if test.family() == Family::InnoDb {
            let level = "set session transaction isolation level read committed";
            session.run(level).await;
            must(&mut probe, level).await;
        }
        let mut rows = BTreeSet::new();
        for table in TABLES {
            let found = must(&mut probe, &all_of(table, "")).await;
            rows.extend(found.into_iter().map(|row| (table.name, row)));
        }
        Server { test: test.clone(), session, probe, rows, witnessed: 0 }
    }

    /// The schema as rowlock reads it.
    pub(crate) async fn schema(&self) -> Schema {
        let catalog = match self.test.family() {
            Family::Postgres => {
                let pool = self.test.postgres().await;
                Catalog::postgres(&mut pool.acquire().await.unwrap()).await
            }
            _ => {
                let pool = self.test.mysql().await;
                let order = <Tables as rowlock::LockOrder>::RESOURCES;
                Catalog::mysql(&mut pool.acquire().await.unwrap(), order).await
            }
        };
        catalog.unwrap().schema
    }

    /// Runs a statement in a transaction that stays open, and finds what it holds.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<Truth, String> {
        self.session.run("begin").await;
        let outcome = self.session.step(sql).await;
        if !outcome.is_done() {
            return Err(outcome.to_string());
        }
        let mut before: BTreeMap<Row, Option<Strength>> = self.rows.iter().map(|row| (row.clone(), None)).collect();
        // From the weakest: what refuses a weaker request is the stronger lock.
        must(&mut self.probe, "begin").await;
        // Not by another index that has all the columns in it: what locks rows are, on InnoDB, entries of indexes.
        let by_key = if self.test.family() == Family::InnoDb { "force index (primary)" } else { "" };
        for &(clause, refuser) in clauses(self.test.engine()) {
            for table in TABLES {
                let request = all_of(table, &format!("{by_key} {clause}"));
                let free: BTreeSet<_> = must(&mut self.probe, &request).await.into_iter().collect();
                for ((_, row), held) in before.iter_mut().filter(|((name, _), _)| *name == table.name) {
                    if held.is_none() && !free.contains(row) {
                        *held = Some(refuser);
                    }
                }
            }
        }
        must(&mut self.probe, "rollback").await;
        let made = self.made().await;
        let mut guarded = BTreeSet::new();
        for row in &made {
            let (name, values) = row;
            let table = TABLES.iter().find(|table| table.name == *name).unwrap();
            let key: Vec<&str> = values[..table.key].iter().flatten().map(String::as_str).collect();
            let insert = format!(
                "insert into {name} ({}) values ({}, {})",
                table.columns.join(", "),
                key.join(", "),
                table.rest
            );
            if self.test.would_wait(&insert).await {
                guarded.insert(row.clone());
            }
        }
        Ok(Truth { before, made, guarded })
    }

    /// The rows whose keys were not there before, as the statement's own session sees them.
    async fn made(&mut self) -> BTreeSet<Row> {
        let mut made = BTreeSet::new();
        for table in TABLES {
            for row in self.session.run(&all_of(table, "")).await.rows {
                let is_old = |old: &&Row| old.0 == table.name && old.1[..table.key] == row[..table.key];
                if !self.rows.iter().any(|old| is_old(&old)) {
                    made.insert((table.name, row));
                }
            }
        }
        made
    }

    /// Asks the server's own view, where it has one that can be trusted with this: every row that it shows is one that
    /// was found.
    pub(crate) async fn witness(&mut self, truth: &Truth) {
        let shown = match self.test.engine() {
            Engine::MySql => {
                let sql = "select object_name, lock_data from performance_schema.data_locks \
                           where object_schema = database() and index_name = 'PRIMARY' and lock_type = 'RECORD' \
                           and lock_data <> 'supremum pseudo-record' and lock_mode like '%REC_NOT_GAP%'";
                must(&mut self.probe, sql).await
            }
            // PostgreSQL 18 comes without extensions.
            Engine::Pg15 => {
                let rows = |table: &Table| {
                    let key = table.columns[..table.key].join(" || ', ' || ");
                    format!(
                        "select '{0}', {key} || '' from pgrowlocks('{0}') l join {0} t on t.ctid = l.locked_row",
                        table.name
                    )
                };
                must(&mut self.probe, &TABLES.iter().map(rows).collect::<Vec<_>>().join(" union all ")).await
            }
            _ => return,
        };
        for lock in shown {
            let [Some(table), Some(key)] = &lock[..] else { continue };
            let key: Vec<&str> = key.split(", ").collect();
            let is_it = |(name, values): &&Row| {
                name == table && key.iter().zip(values).all(|(k, value)| value.as_deref() == Some(*k))
            };
            let held = truth.before.iter().filter(|(_, held)| held.is_some()).map(|(row, _)| row);
            assert!(held.chain(&truth.made).any(|row| is_it(&row)), "{table} {key:?} is shown, which no probe found");
            self.witnessed += 1;
        }
    }

    pub(crate) async fn rollback(&mut self) {
        self.session.run("rollback").await;
    }
}

fn all_of(table: &Table, clause: &str) -> String {
    format!("select {} from {} {clause}", table.columns.join(", "), table.name)
}

async fn must(connection: &mut Connection, sql: &str) -> Vec<Vec<Option<String>>> {
    connection.run(sql).await.unwrap_or_else(|error| panic!("`{sql}`: {error}")).rows
}

/// Requests, the weakest first, and the strength of the lock that refuses each if it refuses none before.
fn clauses(engine: Engine) -> &'static [(&'static str, Strength)] {
    use Strength::{KeyShare, NoKeyUpdate, Share, Update};
    match engine {
        Engine::MySql => &[("for share skip locked", Update), ("for update skip locked", Share)],
        Engine::MariaDb => &[("lock in share mode skip locked", Update), ("for update skip locked", Share)],
        _ => &[
            ("for key share skip locked", Update),
            ("for share skip locked", NoKeyUpdate),
            ("for no key update skip locked", Share),
            ("for update skip locked", KeyShare),
        ],
    }
}
