//! Rows with a version are written from the version that was read, or not at all; and it is told which, and why.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use rowlock::{Db, Edit, Engine, Error, Failure, Saved, Versioned};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::FromRow;
use uuid::Uuid;

rowlock::lock_order! {
    order Desk {
        Customer => "customers" (id: i64),
        Order    => "orders"    (id: i64),
        Page     => "pages"     (lang: String, name: String),
        Blob     => "blobs"     (id: Uuid),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
struct OrderRow {
    id: i64,
    n: i64,
    note: Option<String>,
    scan: Vec<u8>,
    version: i64,
}

impl Versioned for OrderRow {
    type Resource = Order;
    fn key(&self) -> i64 {
        self.id
    }
    fn version(&self) -> i64 {
        self.version
    }
}

#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
struct PageRow {
    lang: String,
    name: String,
    body: String,
    rev: i16,
}

impl Versioned for PageRow {
    type Resource = Page;
    const VERSION: &'static str = "rev";
    fn key(&self) -> (String, String) {
        (self.lang.clone(), self.name.clone())
    }
    fn version(&self) -> i64 {
        self.rev.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
struct BlobRow {
    id: Uuid,
    size: i64,
    version: i64,
}

impl Versioned for BlobRow {
    type Resource = Blob;
    fn key(&self) -> Uuid {
        self.id
    }
    fn version(&self) -> i64 {
        self.version
    }
}

const ORDERS: i64 = 300;

async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    open_with(test, 10).await
}

async fn open_with<E: Engine>(test: &TestDb, connections: u32) -> Db<E> {
    let (text, bytes, uuid, empty) = match test.family() {
        Family::Postgres => ("text", "bytea", "uuid", "''"),
        // The two servers name the collation that compares bytes differently, and each reads only its own comment.
        Family::InnoDb => (
            "varchar(40) character set utf8mb4 collate /*!80000 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */",
            "varbinary(100)",
            "binary(16)",
            "''",
        ),
        Family::Sqlite => ("text", "blob", "blob", "x''"),
    };
    test.execute(&format!(
        "create table customers (id bigint not null primary key, name {text} not null);
         create table orders (
            id bigint not null primary key, n bigint not null, note {text}, scan {bytes} not null default {empty}, customer bigint,
            code bigint unique, version bigint not null default 0, foreign key (customer) references customers (id)
         );
         create table pages (
            lang {text} not null, name {text} not null, body {text} not null, rev smallint not null default 0,
            primary key (lang, name)
         );
         create table blobs (id {uuid} not null primary key, size bigint not null, version bigint not null default 0)"
    ))
    .await;
    test.execute("insert into customers values (1, 'Ada'), (2, 'Bob')").await;
    let rows: Vec<String> = (1..=ORDERS).map(|id| format!("({id}, 0)")).collect();
    test.execute(&format!("insert into orders (id, n) values {}", rows.join(", "))).await;
    test.execute("insert into pages (lang, name, body) values ('de', 'a', ''), ('de', 'ä', ''), ('en', 'A', ''), ('en', 'a', '')").await;
    Db::builder(Desk).open(test.pool_of(connections).await).await.unwrap_or_else(|error| panic!("{error}"))
}

/// How many statements `work` sends.
async fn sent<E: Engine, T>(db: &Db<E>, work: impl Future<Output = T>) -> (T, u64) {
    let before = db.counts().statements;
    let result = work.await;
    (result, db.counts().statements - before)
}

fn edit<E: Engine>(id: i64, version: i64) -> Edit<E, OrderRow> {
    Edit::at(id, version)
}

fn row(id: i64, n: i64, version: i64) -> OrderRow {
    OrderRow { id, n, note: None, scan: Vec::new(), version }
}

engines! {
    async fn one_row_in_one_statement<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("edit");
        let (saved, statements) = sent(&db, kind.save(edit(7, 0).set("n", 5i64).set("note", "five"))).await;
        assert_eq!((saved.unwrap(), statements), (Saved::Done { version: 1 }, 1));
        let (saved, statements) = sent(&db, kind.save(edit(7, 0).set("n", 6i64))).await;
        let now = OrderRow { note: Some("five".into()), ..row(7, 5, 1) };
        assert_eq!((saved.unwrap(), statements), (Saved::Conflict { now: now.clone() }, 2));
        // What came from the future did not come from this row.
        assert!(matches!(kind.save(edit(7, 9)).await.unwrap(), Saved::Conflict { .. }));
        let (saved, statements) = sent(&db, kind.save(edit(999, 0).set("n", 6i64))).await;
        assert_eq!((saved.unwrap(), statements), (Saved::Missing, 2));
        let scan: Vec<u8> = (0..=99).map(|n| n + 100).collect();
        let edit = Edit::of(&now).set("note", None::<String>).set("scan", scan.clone());
        assert_eq!(kind.save(edit).await.unwrap().version(), Some(2));
        let (_, rows) = db.transaction(async |tx| {
            tx.lock::<Order>([7]).fetch_all::<OrderRow>().await.map(|(_, rows)| ((), rows))
        }).await.unwrap();
        assert_eq!(rows, [OrderRow { scan, ..row(7, 5, 2) }]);
        assert_eq!((db.counts().conflicts, db.counts().violations), (2, 0));
    }

    async fn many_rows_each_on_its_own<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("edit");
        assert!(kind.save_each::<OrderRow>([]).await.unwrap().is_empty());
        kind.save(edit(5, 0)).await.unwrap();
        // In no order, with other columns, and values of each kind.
        let edits = [
            edit(9, 0).set("n", 90i64).set("note", Some("neun".to_owned())),
            edit(5, 0).set("n", 50i64).set("note", None::<String>),
            edit(1, 0).set("n", 10i64).set("note", None::<String>),
            edit(999, 0).set("n", 1i64).set("note", None::<String>),
            edit(4, 0).set("scan", vec![0u8, 255, 39]),
            edit(3, 0),
        ];
        let (saved, statements) = sent(&db, kind.save_each(edits)).await;
        let saved = saved.unwrap();
        let done = Saved::Done { version: 1 };
        let conflict = Saved::Conflict { now: row(5, 0, 1) };
        assert_eq!(saved, [done.clone(), conflict, done.clone(), Saved::Missing, done.clone(), done.clone()]);
        // BEGIN, the locks (twice, for the row that was missing), one for each set of columns, COMMIT.
        assert_eq!(statements, 7);
        let sum = test.value("select sum(n * 1000 + version) from orders where id in (1, 3, 4, 5, 9)").await;
        assert_eq!(sum, "100005");
        assert_eq!(test.value("select note from orders where id = 9").await, "neun");
        assert_eq!(test.value("select count(*) from orders where length(scan) = 3").await, "1");
    }

    async fn many_rows_all_or_none<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("edit");
        kind.save(edit(2, 0)).await.unwrap();
        let edits = [edit(3, 0).set("n", 1i64), edit(2, 0).set("n", 1i64), edit(1, 0).set("n", 1i64)];
        let (saved, statements) = sent(&db, kind.save_all(edits)).await;
        let conflict = Saved::Conflict { now: row(2, 0, 1) };
        assert_eq!((saved.unwrap(), statements), (vec![Saved::Withheld, conflict, Saved::Withheld], 3));
        assert_eq!(test.value("select sum(n + version) from orders").await, "1");
        let edits = (1..=ORDERS).rev().map(|id| edit(id, i64::from(id == 2)).set("n", id));
        let (saved, statements) = sent(&db, kind.save_all(edits)).await;
        assert!(saved.unwrap().iter().all(Saved::is_done));
        // One lock and two updates for 300 rows.
        assert_eq!((statements, test.value("select sum(n) from orders").await), (5, (ORDERS * (ORDERS + 1) / 2).to_string()));
        assert_eq!(test.value("select count(*) from orders where n <> id").await, "0");
    }

    async fn keys_of_every_kind<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("edit");
        let page = |lang: &str, name: &str| Edit::<E, PageRow>::at((lang.to_owned(), name.to_owned()), 0);
        assert_eq!(kind.save(page("de", "ä").set("body", "x")).await.unwrap(), Saved::Done { version: 1 });
        let saved = kind.save_each([page("en", "a").set("body", "y"), page("de", "a").set("body", "z"), page("de", "ä").set("body", "w")]).await;
        let done = Saved::Done { version: 1 };
        let now = PageRow { lang: "de".into(), name: "ä".into(), body: "x".into(), rev: 1 };
        assert_eq!(saved.unwrap(), [done.clone(), done, Saved::Conflict { now }]);
        assert_eq!(test.value("select body from pages where lang = 'en' and name = 'A'").await, "");
        let ids: Vec<Uuid> = (1..=4).map(|n| Uuid::from_u128(n << 100 | 0x8000_0000_0000_0000)).collect();
        db.transaction(async |mut tx| {
            for id in &ids {
                let mut insert = sqlx::QueryBuilder::<E>::new("insert into blobs (id, size) values (");
                insert.push_bind(*id).push(", 0)").build().execute(&mut tx).await?;
            }
            Ok::<_, Error>(())
        }).await.unwrap();
        let blob = |n: usize| Edit::<E, BlobRow>::at(ids[n], 0).set("size", n as i64);
        assert!(kind.save(blob(3)).await.unwrap().is_done());
        assert!(kind.save_all([blob(2), blob(1)]).await.unwrap().iter().all(Saved::is_done));
        assert_eq!(test.value("select sum(size * 10 + version) from blobs").await, "63");
        assert!(matches!(kind.save(Edit::<E, BlobRow>::at(Uuid::nil(), 0)).await.unwrap(), Saved::Missing));
    }

    async fn what_cannot_be_is_refused_and_named<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("edit");
        let cases = [
            (edit(1, 0).set("color", 1i64), "`Order`, column `color`: `", "has no such column"),
            (edit(1, 0).set("id", 1i64), "column `id`", "the key and the version of a row cannot be set"),
            (edit(1, 0).set("version", 1i64), "column `version`", "the key and the version of a row cannot be set"),
            (edit(1, 0).set("n", 1i64).set("n", 2i64), "column `n`", "it is set twice"),
            (edit(1, i64::MAX), "column `version`", "the last that the column holds"),
        ];
        for (edit, begin, reason) in cases {
            let (error, statements) = sent(&db, kind.save(edit)).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(begin) && error.contains(reason) && statements == 0, "{error}");
        }
        let (error, statements) = sent(&db, kind.save_each([edit(1, 0), edit(2, 0), edit(1, 0)])).await;
        assert!(matches!(error, Err(Error::Edit { column: None, resource: "Order", .. })), "{error:?}");
        assert!(statements <= 2, "BEGIN and ROLLBACK");
        // A column's own end.
        test.execute("update pages set rev = 32767").await;
        let last = Edit::<E, PageRow>::at(("de".to_owned(), "a".to_owned()), 32_766);
        assert!(matches!(kind.save(last).await.unwrap(), Saved::Conflict { .. }));
        let last = Edit::<E, PageRow>::at(("de".to_owned(), "a".to_owned()), if test.family() == Family::Sqlite { i64::MAX } else { 32_767 });
        assert!(matches!(kind.save(last).await, Err(Error::Edit { column: Some("rev"), .. })));
    }

    async fn a_column_that_cannot_be_a_version<E: Engine>(test: TestDb) {
        macro_rules! versioned {
            ($($name:ident = $column:literal;)+) => { $(
                #[derive(Debug)]
                struct $name;
                impl<'r, R: sqlx::Row> FromRow<'r, R> for $name {
                    fn from_row(_: &'r R) -> Result<Self, sqlx::Error> {
                        Ok($name)
                    }
                }
                impl Versioned for $name {
                    type Resource = Order;
                    const VERSION: &'static str = $column;
                    fn key(&self) -> i64 { 1 }
                    fn version(&self) -> i64 { 0 }
                }
            )+ };
        }
        versioned! { Absent = "rev"; Nullable = "customer"; Text = "note"; Unique = "code"; }
        let db: Db<E> = open(&test).await;
        test.execute("alter table orders add column loose bigint").await;
        db.refresh().await.unwrap();
        versioned! { Loose = "loose"; }
        let kind = db.kind("edit");
        for (error, reason) in [
            (kind.save(Edit::of(&Absent)).await.unwrap_err(), "no such column"),
            (kind.save(Edit::of(&Loose)).await.unwrap_err(), "may be NULL"),
            (kind.save(Edit::of(&Text)).await.unwrap_err(), "not an integer"),
            (kind.save(Edit::of(&Unique)).await.unwrap_err(), "unique key"),
            (kind.save(Edit::of(&Nullable)).await.unwrap_err(), "another table"),
        ] {
            assert!(matches!(error, Error::Edit { column: Some(_), resource: "Order", .. }), "{error:?}");
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert_eq!(db.counts().statements, 0);
    }

    /// The decision holds nothing: there is one connection, and `decide` takes it.
    async fn a_decision_is_made_again_on_what_is_there<E: Engine>(test: TestDb) {
        let db: Db<E> = open_with(&test, 1).await;
        let runs = AtomicU32::new(0);
        let kind = db.kind("revise");
        let (saved, statements) = sent(&db, kind.revise(7, async |order: OrderRow| {
            let connection = db.pool().acquire().await?;
            drop(connection);
            if runs.fetch_add(1, Relaxed) == 0 {
                test.execute("update orders set n = 100, version = version + 1 where id = 7").await;
            }
            Ok::<_, Error>(Some(Edit::of(&order).set("n", order.n + 1)))
        })).await;
        // Read, write, look; read, write.
        assert_eq!((saved.unwrap(), statements, runs.into_inner()), (Some(2), 5, 2));
        assert_eq!(test.value("select n from orders where id = 7").await, "101");
        // Nothing to do, an own error, and no row: each at once.
        assert_eq!(kind.revise(7, async |_: OrderRow| Ok::<_, Error>(None)).await.unwrap(), None);
        let own = kind.revise(7, async |_: OrderRow| Err::<Option<Edit<E, OrderRow>>, _>(anyhow::anyhow!("no"))).await;
        assert_eq!(own.unwrap_err().to_string(), "no");
        let missing = kind.revise(999, async |order: OrderRow| Ok::<_, Error>(Some(Edit::of(&order)))).await;
        assert!(matches!(missing, Err(Error::Missing { resource: "Order", .. })), "{missing:?}");
        // Bounded; and a slow decision is not held against it.
        let runs = AtomicU32::new(0);
        let kind = kind.attempts(3).deadline(Duration::from_millis(50)).backoff(Duration::from_millis(1));
        let error = kind.revise(7, async |order: OrderRow| {
            runs.fetch_add(1, Relaxed);
            test.execute("update orders set version = version + 1 where id = 7").await;
            // The decision itself.
            tokio::time::sleep(Duration::from_millis(60)).await;
            Ok::<_, Error>(Some(Edit::of(&order)))
        }).await.unwrap_err();
        let Error::Exhausted { attempts, .. } = &error else { panic!("{error:?}") };
        assert_eq!((attempts.len(), runs.into_inner()), (3, 3), "{error}");
        assert!(attempts.iter().all(|attempt| attempt.failure == Failure::Conflict), "{error}");
    }

    /// The sum of what was granted is what is there.
    async fn every_revision_counts_once<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("revise").attempts(1000);
        let tasks: Vec<_> = (0..8).map(|_| {
            let kind = kind.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let add = async |order: OrderRow| Ok::<_, Error>(Some(Edit::of(&order).set("n", order.n + 1)));
                    kind.revise(7, add).await.unwrap();
                }
            })
        }).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(test.value("select n * 1000 + version from orders where id = 7").await, "80080");
    }

    async fn in_a_transaction_it_takes_its_place<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let (_, statements) = sent(&db, db.transaction(async |tx| {
            let tx = tx.lock::<Customer>([1]).await?;
            let (tx, saved) = tx.save(edit(7, 0).set("n", 1i64)).await?;
            assert!(saved.is_done());
            let (tx, saved) = tx.save_all([edit(9, 0).set("n", 1i64), edit(8, 0).set("n", 1i64)]).await?;
            assert!(saved.iter().all(Saved::is_done));
            // Below what is held: had without waiting.
            let (tx, saved) = tx.save(edit(3, 0).set("n", 1i64)).await?;
            assert_eq!((saved, tx.held().len()), (Saved::Done { version: 1 }, 5));
            let (tx, saved) = tx.save(edit(3, 0)).await?;
            assert_eq!(saved, Saved::Conflict { now: row(3, 1, 1) });
            drop(tx);
            Ok::<_, Error>(())
        })).await;
        assert_eq!((statements, db.counts().late, db.counts().violations), (10, 1, 0));
        assert_eq!(test.value("select sum(n) from orders").await, "4");
        // A closure that fails takes all of it back.
        let failed = db.transaction(async |tx| {
            let (_tx, saved) = tx.save(edit(20, 0).set("n", 1i64)).await?;
            assert!(saved.is_done());
            Err::<(), _>(anyhow::anyhow!("no"))
        }).await;
        assert!(failed.is_err());
        assert_eq!(test.value("select version from orders where id = 20").await, "0");
    }

    /// A column that refers to another table: its row is locked too, and each is shown to the guard.
    async fn a_reference_is_held_to_the_order<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let kind = db.kind("assign");
        let assign = |id: i64, to: i64| edit::<E>(id, 0).set("customer", to);
        // Customers stand before orders: their row is locked first.
        assert!(kind.save(assign(1, 2)).await.unwrap().is_done());
        let saved = db.transaction(async |tx| {
            let tx = tx.lock::<Customer>([1, 2]).key_share().await?;
            let (_tx, saved) = tx.save_each([assign(5, 1), assign(4, 2), edit(6, 0).set("code", 6i64)]).await?;
            Ok::<_, Error>(saved)
        }).await.unwrap();
        assert!(saved.iter().all(Saved::is_done), "{saved:?}");
        assert_eq!(test.value("select sum(customer * 10 + version) from orders where id in (1, 4, 5)").await, "53");
        let error = kind.save(assign(10, 77)).await.unwrap_err();
        assert!(test.family() == Family::Sqlite || matches!(error, Error::Database(_)), "{error:?}");
    }

    async fn batches_in_every_order_never_deadlock<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let done = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..8).map(|seed| {
            let (db, done) = (db.clone(), done.clone());
            tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(seed);
                let mut known = [0i64; 12];
                for round in 0..20 {
                    let mut ids: Vec<i64> = (1..=12).collect();
                    ids.shuffle(&mut random);
                    ids.truncate(random.random_range(2..=6));
                    let edits = ids.iter().map(|id| edit(*id, known[*id as usize - 1]).set("n", round));
                    let kind = db.kind("batch");
                    let saved = if seed % 2 == 0 { kind.save_each(edits).await } else { kind.save_all(edits).await };
                    for (id, saved) in ids.iter().zip(saved.unwrap()) {
                        match saved {
                            Saved::Done { version } => {
                                done.fetch_add(1, Relaxed);
                                known[*id as usize - 1] = version;
                            }
                            Saved::Conflict { now } => known[*id as usize - 1] = now.version,
                            Saved::Withheld => {}
                            Saved::Missing => panic!("row {id} is there"),
                        }
                    }
                }
            })
        }).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let counts = db.counts();
        assert_eq!((counts.deadlocks, counts.restarts, counts.late), (0, 0, 0), "{counts:?}");
        assert!(counts.conflicts > 0);
        assert_eq!(test.value("select sum(version) from orders").await, done.load(Relaxed).to_string());
    }
}

engines! { servers:
    async fn a_late_row_that_is_busy_restarts_the_whole<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select * from orders where id = 3 for update").await;
        let holder = tokio::sync::Mutex::new(holder);
        let runs = AtomicU32::new(0);
        let work = db.transaction(async |tx| {
            runs.fetch_add(1, Relaxed);
            let (tx, first) = tx.save(edit(7, 0).set("n", 1i64)).await?;
            let (_tx, second) = tx.save(edit(3, 0).set("n", 1i64)).await?;
            Ok::<_, Error>(first.is_done() && second.is_done())
        });
        let release = async {
            test.until_blocked(1).await;
            holder.lock().await.run("rollback").await;
        };
        assert!(tokio::join!(work, release).0.unwrap());
        assert_eq!((runs.into_inner(), db.counts().restarts, db.counts().deadlocks), (2, 1, 0));
    }

    /// What a conflict shows in a transaction stays so until it ends.
    async fn a_conflict_in_a_transaction_is_under_its_lock<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        test.execute("update orders set version = 4 where id = 7").await;
        let mut other = test.session("other").await;
        other.run("begin").await;
        let other = tokio::sync::Mutex::new(other);
        db.transaction(async |tx| {
            let (tx, saved) = tx.save(edit(7, 0).set("n", 1i64)).await?;
            let Saved::Conflict { now } = saved else { panic!("{saved:?}") };
            let outcome = other.lock().await.step("update orders set n = 77, version = 5 where id = 7").await;
            assert!(outcome.is_blocked(), "{outcome}");
            let (_tx, saved) = tx.save(Edit::of(&now).set("n", 1i64)).await?;
            assert_eq!(saved, Saved::Done { version: 5 });
            Ok::<_, Error>(())
        }).await.unwrap();
        let mut other = other.into_inner();
        assert!(other.outcome().await.is_done());
        other.run("rollback").await;
        assert_eq!(test.value("select n * 10 + version from orders where id = 7").await, "15");
    }

    async fn a_busy_row_is_told<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("update orders set version = 1 where id = 7").await;
        let limit = Duration::from_millis(200);
        let soon = db.kind("soon").wait(limit);
        let now = db.kind("now").nowait();
        for (n, result) in [
            soon.save(edit(7, 0)).await.map(drop),
            soon.save_each([edit(7, 0), edit(8, 0)]).await.map(drop),
            soon.transaction(async |tx| tx.save(edit(7, 0)).await.map(drop)).await,
            now.save(edit(7, 0)).await.map(drop),
            now.save_all([edit(7, 0), edit(8, 0)]).await.map(drop),
            now.transaction(async |tx| tx.save(edit(7, 0)).await.map(drop)).await,
        ].into_iter().enumerate() {
            let Err(Error::Busy { waited, turned_away: false, resource: "Order", .. }) = result else { panic!("{n}: {result:?}") };
            assert_eq!(waited.is_some(), n < 3, "{n}: {waited:?}");
            assert!(test.waits().await.is_empty(), "{n}: it still waits at the server");
        }
        // A wait that ends in time: the holder's commit is seen, and is a conflict.
        let waiting = tokio::spawn({
            let db = db.clone();
            async move { db.kind("wait").save(edit(7, 0)).await }
        });
        test.until_blocked(1).await;
        holder.run("commit").await;
        assert_eq!(waiting.await.unwrap().unwrap(), Saved::Conflict { now: row(7, 0, 1) });
        assert!(now.save(edit(7, 1)).await.unwrap().is_done());
    }
}
