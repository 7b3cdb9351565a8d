//! The guard's three levels: what each does with each kind of statement that it minds, and how an existing service is
//! run under it unchanged.

use rowlock::{Counts, Db, Engine, Error, Guard, Kind, Policy, Result, UnknownKeys};
use rowlock_testing::{Family, TestDb, engines};
use tracing::Level;

use crate::support::{Account, Inventory};
use crate::{add, log::Log, n, open_single};

/// What was counted between two readings: late places, violations, refusals.
fn between(before: Counts, after: Counts) -> (u64, u64, u64) {
    (after.late - before.late, after.violations - before.violations, after.refusals - before.refusals)
}

/// Sends one statement while account 3 is held, and rolls back.
async fn send<E: Engine>(kind: &Kind<E>, sql: &'static str) -> Result<()> {
    #[derive(Debug)]
    enum End {
        Sent,
        Failed(Error),
    }
    impl From<Error> for End {
        fn from(error: Error) -> End {
            End::Failed(error)
        }
    }
    let end = kind
        .transaction(async |tx| {
            let mut tx = tx.lock::<Account>([3]).await?;
            sqlx::query(sql).execute(&mut tx).await.map_err(Error::from)?;
            Err::<(), End>(End::Sent)
        })
        .await;
    match end {
        Err(End::Failed(error)) => Err(error),
        _ => Ok(()),
    }
}

const LEVELS: [Guard; 3] = [Guard::Observe, Guard::Warn, Guard::Enforce];

engines! {
    async fn a_late_row_by_its_key<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let log = Log::start(Level::WARN);
        for (level, counted) in [(Guard::Observe, (0, 1, 0)), (Guard::Warn, (1, 0, 0)), (Guard::Enforce, (1, 0, 0))] {
            let before = db.counts();
            let statements = before.statements;
            send(&db.kind("late").guard(level), "update orders set n = n + 1 where id = 10").await.unwrap();
            assert_eq!(between(before, db.counts()), counted, "{level:?}");
            // BEGIN, the lock, the statement (ROLLBACK is not counted); mended, the late row is locked as well.
            let sent = db.counts().statements - statements;
            assert!(if level == Guard::Observe { sent == 3 } else { sent > 3 }, "{level:?}: {sent}");
        }
        assert_eq!(log.lines(), [""; 0], "what is mended is no warning");
    }

    async fn rows_that_no_key_names<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let sql = "update accounts set n = n + 1 where n > 5000";
        let log = Log::start(Level::WARN);
        for level in LEVELS {
            let before = db.counts();
            let result = send(&db.kind("unknown").guard(level), sql).await;
            let (lines, counted) = (log.lines(), between(before, db.counts()));
            match level {
                Guard::Observe => assert!(result.is_ok() && lines.is_empty() && counted == (0, 1, 0), "{result:?} {lines:?} {counted:?}"),
                Guard::Warn => {
                    assert!(result.is_ok() && lines.len() == 1 && counted == (0, 1, 0), "{result:?} {lines:?} {counted:?}");
                    assert!(lines[0].contains("lock_where::<Account>") && lines[0].contains("unknown"), "{lines:?}");
                }
                Guard::Enforce => {
                    let error = result.unwrap_err();
                    assert!(matches!(error, Error::Refused(_)), "{error:?}");
                    assert!(error.to_string().contains("lock_where::<Account>"), "{error}");
                    assert_eq!(counted, (0, 0, 1));
                }
            }
        }
        // Counted as the whole resource: all of it is locked, whatever is held of it.
        let whole = db.kind("whole").unknown_keys(UnknownKeys::WholeResource);
        send(&whole, sql).await.unwrap();
        whole.transaction(async |tx| {
            let mut tx = tx.lock::<Inventory>([3]).await?;
            sqlx::query(sql).execute(&mut tx).await?;
            // From here on nothing of it may be waited for.
            tx.lock::<Account>([3]).await.map(drop)
        }).await.unwrap();
    }

    /// A text is told once for a kind of transaction; what is counted goes on.
    async fn what_is_let_pass_is_told_once<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let (log, before) = (Log::start(Level::WARN), db.counts());
        for _ in 0..3 {
            for kind in ["one", "other"] {
                let kind = db.kind(kind).guard(Guard::Warn);
                send(&kind, "update accounts set n = n + 1 where n > 5000").await.unwrap();
                send(&kind.clone().late(rowlock::Late::Refuse), "update orders set n = n + 1 where id = 10").await.unwrap();
            }
        }
        assert_eq!((log.lines().len(), between(before, db.counts()).1), (4, 12), "{:?}", log.lines());
    }

    async fn sql_that_cannot_be_read<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let sql = "frobnicate the accounts";
        for level in LEVELS {
            let before = db.counts();
            let error = send(&db.kind("unreadable").guard(level), sql).await.unwrap_err();
            if level == Guard::Enforce {
                assert!(matches!(error, Error::Refused(_)), "{error:?}");
                assert!(error.to_string().contains(".unreadable(Policy::Warn)"), "{error}");
            } else {
                // It was sent, and the server said no.
                assert!(matches!(error, Error::Database(_)), "{error:?}");
                assert_eq!(between(before, db.counts()), (0, 1, 0), "{level:?}");
            }
        }
        let allowed = send(&db.kind("unreadable").unreadable(Policy::Allow), sql).await.unwrap_err();
        assert!(matches!(allowed, Error::Database(_)), "{allowed:?}");
    }

    async fn a_table_outside_the_order<E: Engine>(test: TestDb) {
        test.execute("create table notes (id int primary key, n int); insert into notes values (1, 1)").await;
        let db: Db<E> = open_single(&test).await;
        let sql = "update notes set n = 2 where id = 1";
        for level in LEVELS {
            let result = send(&db.kind("notes").guard(level), sql).await;
            if level == Guard::Enforce {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("notes`, which is not in the order") && error.contains(".undeclared(Policy::Allow)"), "{error}");
            } else {
                result.unwrap();
            }
        }
        let log = Log::start(Level::WARN);
        for (policy, warned, sent) in [(Policy::Allow, 0, true), (Policy::Warn, 1, true), (Policy::Refuse, 0, false)] {
            let result = send(&db.kind("policies").undeclared(policy), sql).await;
            assert_eq!((log.lines().len(), result.is_ok()), (warned, sent), "{policy:?}");
        }
        // A new row is nobody else's.
        send(&db.kind("notes"), "insert into notes values (2, 2)").await.unwrap();
    }

    async fn the_transactions_own_statements_are_rowlocks<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        for sql in ["commit", "ROLLBACK", "/* done */ commit", "begin", "savepoint mine"] {
            let error = db.transaction(async |tx| {
                let mut tx = tx.lock::<Account>([3]).await?;
                add(&mut tx, "accounts", 3, 1).await?;
                sqlx::query(sql).execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{sql}: {error:?}");
            assert!(error.to_string().contains("tx.savepoint()"), "{error}");
            assert_eq!(n(&test, "accounts", 3).await, 1000, "{sql}");
        }
    }

    /// Statements on whole tables. InnoDB would commit the first half of the transaction before them, without a word.
    async fn what_changes_the_schema<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let log = Log::start(Level::WARN);
        let mut sent = Vec::new();
        for sql in ["create table notes (id int primary key)", "alter table orders add column note int", "drop table inventories"] {
            let result = db.kind("migrates").transaction(async |tx| {
                let mut tx = tx.lock::<Account>([3]).await?;
                add(&mut tx, "accounts", 3, 1).await?;
                sqlx::query(sql).execute(&mut tx).await?;
                Err::<(), _>(Error::Database(sqlx::Error::RowNotFound))
            }).await;
            assert_eq!(n(&test, "accounts", 3).await, 1000, "{sql} committed the half before it");
            let error = result.unwrap_err();
            match test.family() {
                Family::InnoDb => {
                    assert!(matches!(error, Error::Refused(_)), "{sql}: {error:?}");
                    assert!(error.to_string().contains("commit the transaction before they run it"), "{error}");
                }
                _ => assert!(matches!(error, Error::Database(sqlx::Error::RowNotFound)), "{sql}: {error:?}"),
            }
            sent.push(log.lines().len());
            // By policy, refused everywhere.
            let error = send(&db.kind("migrates").opaque(Policy::Refuse), sql).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{sql}: {error:?}");
        }
        assert_eq!(sent, if test.family() == Family::InnoDb { [0; 3] } else { [1; 3] }, "not told");
    }

    async fn what_runs_code_of_its_own<E: Engine>(test: TestDb) {
        let postgres = test.family() == Family::Postgres;
        crate::support::tables(&test).await;
        test.execute(match test.family() {
            Family::Postgres => {
                "create function more() returns trigger language plpgsql as
                     'begin update orders set n = n + 1 where id = 1; return new; end';
                 create trigger more after update on accounts for each row execute function more()"
            }
            Family::InnoDb => "create trigger more after update on accounts for each row update orders set n = n + 1 where id = 1",
            Family::Sqlite => "create trigger more after update on accounts begin update orders set n = n + 1 where id = 1; end",
        }).await;
        let db: Db<E> = crate::open_at(test.url(), 1, |builder| builder).await;
        let trigger = "update accounts set n = n + 1 where id = 3";
        let mut cases = vec![trigger];
        if postgres {
            test.execute("create function touch() returns int language sql as 'update orders set n = 0 where id = 1 returning 1'").await;
            cases.push("select touch()");
        }
        let log = Log::start(Level::WARN);
        for sql in cases {
            for (policy, warned, sent) in [(Policy::Allow, false, true), (Policy::Warn, true, true), (Policy::Refuse, false, false)] {
                let result = send(&db.kind("opaque").opaque(policy), sql).await;
                let lines = log.lines();
                assert_eq!((!lines.is_empty(), result.is_ok()), (warned, sent), "{sql} {policy:?}: {lines:?} {result:?}");
                if let Err(error) = result {
                    assert!(error.to_string().contains(".opaque(Policy::Allow)"), "{error}");
                }
            }
            let result = send(&db.kind("opaque").opaque(Policy::Refuse).guard(Guard::Observe), sql).await;
            assert!(result.is_ok() && log.lines().is_empty(), "{sql}");
        }
    }

    async fn a_kinds_level_is_its_own<E: Engine>(test: TestDb) {
        crate::support::tables(&test).await;
        let db: Db<E> = crate::open_at(test.url(), 1, |builder| builder.guard(Guard::Observe)).await;
        let sql = "update accounts set n = n + 1 where n > 5000";
        send(&db.kind("old"), sql).await.unwrap();
        let error = send(&db.kind("new").guard(Guard::Enforce), sql).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        send(&db.kind("old"), sql).await.unwrap();
    }

    /// The body of a service that was written on plain sqlx: its own order, no locks in advance, rows by a condition.
    /// Under `Observe` it does what it did, statement for statement, and the counters say what is to be mended.
    async fn an_existing_service_runs_unchanged<E: Engine>(test: TestDb) {
        async fn pay<E: Engine, L>(mut tx: rowlock::Tx<E, L>) -> Result<(), sqlx::Error> {
            sqlx::query("update accounts set n = n - 5 where id = 7").execute(&mut tx).await?;
            let (stock,) = sqlx::query_as::<E, (i64,)>("select n from inventories where id = 20").fetch_one(&mut tx).await?;
            assert!(stock > 0);
            sqlx::query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await?;
            sqlx::query("update orders set n = n + 1 where n = 1000 and id < 3").execute(&mut tx).await?;
            sqlx::query("insert into orders (id, n) values (500, 1)").execute(&mut tx).await?;
            Ok(())
        }
        enum Failed { Rowlock(Error), Sqlx(sqlx::Error) }
        impl From<Error> for Failed { fn from(error: Error) -> Self { Failed::Rowlock(error) } }
        impl From<sqlx::Error> for Failed { fn from(error: sqlx::Error) -> Self { Failed::Sqlx(error) } }
        crate::support::tables(&test).await;
        let db: Db<E> = crate::open_at(test.url(), 1, |builder| builder.guard(Guard::Observe)).await;
        let log = Log::start(Level::WARN);
        match db.kind("pay").transaction(async |tx| Ok(pay(tx).await?)).await {
            Ok(()) => {}
            Err(Failed::Rowlock(error)) => panic!("{error}"),
            Err(Failed::Sqlx(error)) => panic!("{error}"),
        }
        assert_eq!(n(&test, "accounts", 7).await, 995);
        assert_eq!(n(&test, "inventories", 20).await, 999);
        assert_eq!(test.value("select sum(n) from orders").await, "100003");
        let counts = db.counts();
        // BEGIN, its five statements, COMMIT: nothing else was sent.
        assert_eq!((counts.statements, counts.committed, counts.refusals), (7, 1, 0));
        assert!(counts.violations >= 3, "{counts:?}");
        assert_eq!(log.lines(), [""; 0], "Observe is quiet");
        // The same under `Enforce` fails at the first thing that cannot be mended, and nothing of it stays.
        let result: Result<()> = db.kind("pay").guard(Guard::Enforce).transaction(async |tx| Ok(pay(tx).await?)).await;
        assert!(matches!(result, Err(Error::Refused(_))), "{result:?}");
        assert_eq!(n(&test, "accounts", 7).await, 995);
    }
}
