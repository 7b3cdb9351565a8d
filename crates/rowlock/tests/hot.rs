//! Sixteen clients on twenty hot rows: ordered transactions never deadlock, and what they do to the rows is exact.
//!
//! The rows' new values are computed here from what the locks returned, so that one lost update shows in the sums. The
//! engines take turns: each is to have the machine to itself.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use futures_util::future::BoxFuture;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use rowlock::{Db, Error, Tx};
use rowlock_testing::{Engine, TestDb};
use sqlx::{MySql, Postgres};
use support::{Account, Row, open};

const CLIENTS: u64 = 16;
const HOT: i64 = 20;
/// So many rounds on a fresh database each, of so many transactions: 100,000 in order, 5,000 with late places.
const ORDERED: (u64, u64) = (10, 10_000);
const LATE: (u64, u64) = (1, 5_000);
/// The most rows that one transaction changes, and so the most restarts that it can need: each adds a row to those
/// that are locked up front.
const ROWS: usize = 4;

/// One engine at a time.
static TURN: Mutex<()> = Mutex::new(());

macro_rules! on_each_server {
    ($($name:ident: $body:ident, $rounds:expr;)+) => { $(
        mod $name {
            use super::*;
            #[test]
            fn pg15() { turn(Engine::Pg15, $rounds, $body::<Postgres>) }
            #[test]
            fn pg18() { turn(Engine::Pg18, $rounds, $body::<Postgres>) }
            #[test]
            fn mariadb() { turn(Engine::MariaDb, $rounds, $body::<MySql>) }
            #[test]
            fn mysql() { turn(Engine::MySql, $rounds, $body::<MySql>) }
        }
    )+ };
}

on_each_server! {
    ordered_transactions: ordered, ORDERED;
    late_places: late, LATE;
}

fn turn<Fut: Future<Output = ()>>(
    engine: Engine,
    (rounds, transactions): (u64, u64),
    body: fn(TestDb, u64, u64) -> Fut,
) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for round in 0..rounds {
        rowlock_testing::run(engine, |test| body(test, round, transactions));
    }
}

/// The shop's accounts, with a counter of visits.
async fn database<E: rowlock::Engine>(test: &TestDb) -> Db<E> {
    let db = open(test).await;
    test.execute("alter table accounts add visits bigint not null default 0").await;
    db.refresh().await.unwrap();
    db
}

async fn ordered<E: rowlock::Engine>(test: TestDb, round: u64, transactions: u64) {
    let db: Db<E> = database(&test).await;
    let touched = load(&test, &db, (round, transactions), in_order).await;
    assert_exact(&test, &db, transactions, touched).await;
    let counts = db.counts();
    assert_eq!((counts.restarts, counts.late), (0, 0), "{counts:?}");
}

async fn late<E: rowlock::Engine>(test: TestDb, round: u64, transactions: u64) {
    let db: Db<E> = database(&test).await;
    let touched = load(&test, &db, (round, transactions), one_by_one).await;
    assert_exact(&test, &db, transactions, touched).await;
    let counts = db.counts();
    assert_eq!(counts.fallbacks, 0, "{counts:?}");
    assert!(counts.late > 0, "random order has late places: {counts:?}");
    assert!(counts.restarts <= transactions * ROWS as u64, "{counts:?}");
}

/// One client's transaction: on a database, by a text, on these keys, so much to move.
type Work<E> = fn(Db<E>, String, Vec<i64>, i64) -> BoxFuture<'static, Result<(), Error>>;

fn in_order<E: rowlock::Engine>(
    db: Db<E>,
    sql: String,
    keys: Vec<i64>,
    amount: i64,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let kind = db.kind("ordered");
        let work = kind.transaction(async |tx| {
            let (mut tx, rows) = tx.lock::<Account>(&keys).fetch_all::<Row>().await?;
            shift(&mut tx, &sql, &rows, amount).await
        });
        work.await
    })
}

fn one_by_one<E: rowlock::Engine>(
    db: Db<E>,
    sql: String,
    keys: Vec<i64>,
    amount: i64,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let kind = db.kind("late");
        let work = kind.transaction(async |tx| {
            let mut tx = tx.pass::<Account>();
            let mut rows: Vec<Row> = Vec::new();
            for key in &keys {
                let (next, row) = tx.lock::<Account>([*key]).fetch_one::<Row>().await?;
                rows.push(row);
                tx = next;
            }
            shift(&mut tx, &sql, &rows, amount).await
        });
        work.await
    })
}

/// Runs `transactions` of the clients' work; how many rows they changed in all.
async fn load<E: rowlock::Engine>(test: &TestDb, db: &Db<E>, (round, transactions): (u64, u64), work: Work<E>) -> u64 {
    let (next, touched) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let client = |client: u64| {
        let (db, test, next, touched) = (db.clone(), test.clone(), next.clone(), touched.clone());
        async move {
            let mut random = StdRng::seed_from_u64(round * CLIENTS + client);
            while next.fetch_add(1, Relaxed) < transactions {
                let mut keys: Vec<i64> = (1..=HOT).collect();
                keys.shuffle(&mut random);
                keys.truncate(random.random_range(2..=ROWS));
                touched.fetch_add(keys.len() as u64, Relaxed);
                let amount = random.random_range(1..=5);
                if let Err(error) = work(db.clone(), text(&test, keys.len()), keys, amount).await {
                    panic!("client {client}: {error:?}");
                }
            }
        }
    };
    let clients: Vec<_> = (0..CLIENTS).map(|n| tokio::spawn(client(n))).collect();
    for client in clients {
        client.await.unwrap();
    }
    let (took, counts) = (began.elapsed(), db.counts());
    let rate = transactions as f64 / took.as_secs_f64();
    let name = test.engine().name();
    eprintln!(
        "{name}: {transactions} transactions in {took:.1?}, {rate:.0}/s; {} restarts, {} late",
        counts.restarts, counts.late
    );
    touched.load(Relaxed)
}

/// Moves `amount` from the last of the rows to the first, and counts a visit on each, by values computed here.
async fn shift<E: rowlock::Engine>(tx: &mut Tx<E, Account>, sql: &str, rows: &[Row], amount: i64) -> Result<(), Error> {
    let mut update = rowlock::query::<E>(sqlx::AssertSqlSafe(sql));
    for (at, row) in rows.iter().enumerate() {
        let by = if at == 0 {
            amount
        } else if at + 1 == rows.len() {
            -amount
        } else {
            0
        };
        update = update.bind(row.id).bind(row.n + by);
    }
    for row in rows {
        update = update.bind(row.id);
    }
    assert_eq!(update.execute(tx).await?, rows.len() as u64);
    Ok(())
}

/// The statement that sets so many rows, each to a value of its own.
fn text(test: &TestDb, rows: usize) -> String {
    let mut n = 0;
    let mut place = || {
        n += 1;
        match test.family() {
            rowlock_testing::Family::Postgres => format!("${n}::bigint"),
            _ => "?".to_owned(),
        }
    };
    let mut sql = String::from("update accounts set visits = visits + 1, n = case id");
    for _ in 0..rows {
        let _ = write!(sql, " when {} then {}", place(), place());
    }
    let keys: Vec<String> = (0..rows).map(|_| place()).collect();
    let _ = write!(sql, " end where id in ({})", keys.join(", "));
    sql
}

async fn assert_exact<E: rowlock::Engine>(test: &TestDb, db: &Db<E>, transactions: u64, touched: u64) {
    let counts = db.counts();
    assert_eq!(counts.deadlocks, 0, "{counts:?}");
    assert_eq!((counts.committed, counts.rolled_back), (transactions, 0), "{counts:?}");
    assert_eq!((counts.refusals, counts.violations), (0, 0), "{counts:?}");
    assert_eq!(test.value("select sum(n) from accounts").await, "100000");
    let visits = test.value("select sum(visits) from accounts").await;
    assert_eq!(visits, touched.to_string());
}
