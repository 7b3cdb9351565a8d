//! Isolation levels and read-only as the server has them, and what a rollback to a savepoint gives back.

use rowlock::{Db, Engine, Error, Guard, Isolation, Strength};
use rowlock_testing::{Engine as Engines, Family, TestDb, engines};

use crate::support::{Inventory, Order, Row};
use crate::{add, n, open_single};

engines! { servers:
    async fn the_server_has_the_level<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let postgres = test.family() == Family::Postgres;
        let level = async |kind: rowlock::Kind<E>| {
            kind.transaction(async |mut tx| {
                if postgres {
                    let sql = "select upper(current_setting('transaction_isolation'))";
                    return Ok::<_, Error>(sqlx::query_scalar::<E, String>(sql).fetch_one(&mut tx).await?);
                }
                // MariaDB 10.11 names no level of a transaction (and innodb_trx is a cache): by what it does. SERIALIZABLE
                // locks what is only read; REPEATABLE READ locks the gap where a missing row would stand.
                sqlx::query("select n from orders where id = 11").execute(&mut tx).await?;
                if test.held("orders", "id = 11").await.is_some() {
                    return Ok("SERIALIZABLE".into());
                }
                let tx = tx.lock::<Order>([5000]).existing().await?;
                let gap = test.would_wait("insert into orders (id, n) values (5001, 1)").await;
                drop(tx);
                Ok(if gap { "REPEATABLE READ".into() } else { "READ COMMITTED".into() })
            }).await.unwrap()
        };
        for (isolation, name) in [
            (Isolation::RepeatableRead, "REPEATABLE READ"),
            (Isolation::Serializable, "SERIALIZABLE"),
            (Isolation::ReadCommitted, "READ COMMITTED"),
        ] {
            assert_eq!(level(db.kind("level").isolation(isolation)).await, name);
            // It was that transaction's alone, on the same connection: the next has its own.
            assert_eq!(level(db.kind("default")).await, "READ COMMITTED");
        }
    }

    async fn a_rollback_to_a_savepoint_gives_back_what_the_server_does<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let postgres = test.family() == Family::Postgres;
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            let before = tx.savepoint().await?;
            // Stronger on a row that is held, and rows of another resource.
            let tx = tx.lock::<Order>([10]).update().await?;
            let mut tx = tx.lock::<Inventory>([30]).await?;
            add(&mut tx, "inventories", 30, 1).await?;
            assert_eq!(tx.held().len(), 2);
            assert_eq!(test.held("orders", "id = 10").await, Some(Strength::Update));
            let tx = tx.rollback_to(before).await?;
            let known: Vec<Strength> = tx.held().places().map(|(_, strength)| strength).collect();
            if postgres {
                assert_eq!(known, [Strength::NoKeyUpdate]);
                assert_eq!(test.held("orders", "id = 10").await, Some(Strength::NoKeyUpdate));
                assert_eq!(test.held("inventories", "id = 30").await, None);
            } else {
                assert_eq!(known, [Strength::Update, Strength::Update]);
                assert_eq!(test.held("orders", "id = 10").await, Some(Strength::Update));
                assert_eq!(test.held("inventories", "id = 30").await, Some(Strength::Update));
            }
            // It lies below what InnoDB still holds.
            tx.lock::<Inventory>([20]).await.map(drop)
        }).await.unwrap();
        // PostgreSQL: the rise from NO KEY UPDATE. InnoDB, which has one strength for both: the place below.
        assert_eq!(db.counts().late, 1);
        assert_eq!(n(&test, "inventories", 30).await, 1000);
    }
}

engines! {
    async fn a_read_only_transaction_writes_nothing<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let kind = db.kind("report").read_only();
        let error = kind.transaction(async |mut tx| {
            sqlx::query("update orders set n = 0 where id = 10").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await;
        assert!(error.is_err(), "it wrote");
        assert_eq!(n(&test, "orders", 10).await, 1000);
        let row: Row = kind.transaction(async |mut tx| {
            Ok::<_, Error>(sqlx::query_as::<E, Row>("select id, n from orders where id = 10").fetch_one(&mut tx).await?)
        }).await.unwrap();
        assert_eq!(row.n, 1000);
        // The same connection writes again in the next transaction.
        db.transaction(async |mut tx| add(&mut tx, "orders", 10, 1).await).await.unwrap();
        assert_eq!(n(&test, "orders", 10).await, 1001);
    }

    async fn a_savepoint_of_another_transaction_is_refused<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let kept = std::sync::Mutex::new(None);
        db.transaction(async |tx| {
            let mut tx = tx.pass::<Order>();
            *kept.lock().unwrap() = Some(tx.savepoint().await?);
            Ok::<_, Error>(())
        }).await.unwrap();
        let error = db.transaction(async |tx| {
            let stale = kept.lock().unwrap().take().unwrap();
            tx.pass::<Order>().rollback_to(stale).await.map(drop)
        }).await.unwrap_err();
        assert!(matches!(error, Error::Savepoint { .. }), "{error:?}");
    }
}

engines! {
    /// By itself it has neither: it is sent in a transaction that has.
    async fn one_statement_has_the_level_and_writes_nothing_where_it_may_only_read<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let update = || rowlock::query("update orders set n = n + 1 where id = 10");
        let before = db.counts().statements;
        db.kind("level").isolation(Isolation::Serializable).execute(update()).await.unwrap();
        assert_eq!(db.counts().statements - before, 3);
        if test.family() == Family::Postgres {
            let sql = "update orders set n = case current_setting('transaction_isolation') when 'serializable' then 7 else 0 end where id = 11";
            db.kind("level").isolation(Isolation::Serializable).execute(rowlock::query(sql)).await.unwrap();
            assert_eq!(n(&test, "orders", 11).await, 7);
        }
        let written = db.kind("reads").read_only().execute(update()).await;
        assert!(matches!(written, Err(Error::Database(_))), "{written:?}");
        assert_eq!(n(&test, "orders", 10).await, 1001);
    }
}

engines! { innodb:
    /// A statement by itself would begin a transaction that nobody ends.
    async fn a_pool_that_does_not_commit_is_refused_at_start(test: TestDb) {
        crate::support::tables(&test).await;
        let options = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).after_connect(|connection, _| {
            Box::pin(async move { sqlx::Executor::execute(connection, "set autocommit = 0").await.map(drop) })
        });
        let pool = options.connect(test.url()).await.unwrap();
        sqlx::query("update orders set n = 0 where id = 10").execute(&pool).await.unwrap();
        assert_eq!(n(&test, "orders", 10).await, 1000, "naively");
        assert!(test.would_wait("update orders set n = 0 where id = 10").await, "naively");
        let error = Db::<sqlx::MySql>::builder(crate::support::Shop).open(pool).await.unwrap_err();
        assert!(error.to_string().contains("autocommit is off"), "{error}");
        assert!(error.to_string().contains("set autocommit = 1"), "no way out: {error}");
    }
}

engines! { servers:
    /// What one transaction sets for its session, the next one on the connection would have.
    async fn a_setting_that_would_stay_is_refused<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let sets: &[&'static str] = match test.engine() {
            Engines::MariaDb => &["set session tx_isolation = 'repeatable-read'", "set @@session.innodb_lock_wait_timeout = 1"],
            Engines::MySql => &["set session transaction_isolation = 'repeatable-read'", "set innodb_lock_wait_timeout = 1"],
            _ => &["set lock_timeout = 1", "set session default_transaction_isolation = 'serializable'"],
        };
        for sql in sets {
            let set = async |guard| db.kind("sets").guard(guard).transaction(async |mut tx| {
                sqlx::query(*sql).execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await;
            let error = set(Guard::Enforce).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)) && error.to_string().contains(".isolation(..)"), "{sql}: {error:?}");
            // Let pass, it is not taken for unset: the next transaction has the level and the limit that it ought to have.
            set(Guard::Observe).await.unwrap();
            if test.family() == Family::InnoDb {
                let (gap, limit) = db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([5000]).existing().await?;
                    let gap = test.would_wait("insert into orders (id, n) values (5001, 1)").await;
                    let limit = sqlx::query_scalar::<E, i64>("select cast(@@innodb_lock_wait_timeout as signed)").fetch_one(&mut tx).await?;
                    Ok::<_, Error>((gap, limit))
                }).await.unwrap();
                assert!(!gap && limit > 1, "{sql}: {gap} {limit}");
            }
        }
    }
}

engines! { postgres:
    async fn a_setting_of_the_transaction_passes(test: TestDb) {
        let db: Db<sqlx::Postgres> = open_single(&test).await;
        db.transaction(async |mut tx| {
            sqlx::query("set local lock_timeout = 700").execute(&mut tx).await?;
            sqlx::query("set local application_name = 'shop'").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap();
    }
}
