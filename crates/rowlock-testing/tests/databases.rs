//! Each test has a database of its own, on every engine.

#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use rowlock_testing::{Engine, TestDb};

rowlock_testing::engines! {
    /// Values come as text, whatever their type.
    async fn values_are_text(db: TestDb) {
        db.execute("create table t (id int primary key, n bigint, s varchar(20))").await;
        let inserted = db.execute("insert into t values (1, 20, 'a'), (2, null, 'b')").await;
        assert_eq!(inserted.affected, 2);
        let answer = db.execute("select id, n, s from t order by id").await;
        let text = |s: &str| Some(s.to_owned());
        assert_eq!(answer.rows, [[text("1"), text("20"), text("a")], [text("2"), None, text("b")]]);
    }

    async fn generic_over_the_driver<E: sqlx::Database>(db: TestDb) -> Result<(), sqlx::Error> {
        let pool = db.pool::<E>().await;
        assert_eq!(pool.options().get_max_connections(), 10);
        let _ = pool.acquire().await?;
        Ok(())
    }
}

rowlock_testing::engines! { pgbouncer:
    async fn reaches_the_test_database(db: TestDb) {
        assert_eq!(db.value("select current_database()").await, db.name());
    }
}

/// Whether the server still has a database of that name.
async fn exists(engine: Engine, name: &str) -> bool {
    let url = rowlock_testing::server_url(engine).unwrap();
    let mut admin = rowlock_testing::Connection::open(engine, &url).await.unwrap();
    let query = format!("select count(*) from information_schema.schemata where schema_name = '{name}'");
    let query = if engine == Engine::MariaDb {
        query
    } else {
        format!("select count(*) from pg_database where datname = '{name}'")
    };
    admin.run(&query).await.unwrap().value() == Some("1")
}

#[tokio::test]
async fn a_passed_test_drops_its_database() {
    for engine in [Engine::Pg15, Engine::MariaDb] {
        let db = rowlock_testing::database(engine).await;
        let name = db.name().to_owned();
        // Not even an open transaction in a forgotten session holds the drop up.
        let mut forgotten = db.connect().await;
        db.execute("create table t (id int primary key)").await;
        forgotten.run("begin").await.unwrap();
        forgotten.run("select * from t").await.unwrap();
        assert!(exists(engine, &name).await);
        drop(db);
        assert!(!exists(engine, &name).await, "{engine}");
    }
}

#[tokio::test]
async fn a_failed_test_keeps_its_database() {
    for engine in [Engine::Pg15, Engine::MariaDb] {
        let (tell, told) = std::sync::mpsc::channel();
        let failing = std::thread::spawn(move || {
            rowlock_testing::run(engine, async |db: TestDb| {
                tell.send(db.name().to_owned()).unwrap();
                Err::<(), _>("this failure is the test's own")
            });
        });
        assert!(failing.join().is_err());
        let name = told.recv().unwrap();
        assert!(exists(engine, &name).await, "{engine}");
        let url = rowlock_testing::server_url(engine).unwrap();
        let mut admin = rowlock_testing::Connection::open(engine, &url).await.unwrap();
        admin.run(&format!("drop database {name}")).await.unwrap();
    }
}
