//! Each test has a database of its own, on every engine.

#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use rowlock_testing::{Connection, Engine, Family, TestDb};

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
    let query = match engine.family() {
        Family::Postgres => format!("select count(*) from pg_database where datname = '{name}'"),
        _ => format!("select count(*) from information_schema.schemata where schema_name = '{name}'"),
    };
    let url = rowlock_testing::server_url(engine).unwrap();
    let mut admin = Connection::open(engine, &url).await.unwrap();
    admin.run(&query).await.unwrap().value() == Some("1")
}

rowlock_testing::engines! { servers:
    async fn a_database_goes_with_its_last_handle(db: TestDb) {
        let passed = rowlock_testing::database(db.engine()).await;
        let name = passed.name().to_owned();
        // Not even an open transaction in a forgotten session holds the drop up.
        let mut forgotten = passed.connect().await;
        passed.execute("create table t (id int primary key)").await;
        forgotten.run("begin").await.unwrap();
        forgotten.run("select * from t").await.unwrap();
        assert!(exists(db.engine(), &name).await);
        drop(passed);
        assert!(!exists(db.engine(), &name).await);
    }

    async fn a_failed_test_keeps_its_database(db: TestDb) {
        let engine = db.engine();
        let (tell, told) = std::sync::mpsc::channel();
        let failing = std::thread::spawn(move || {
            rowlock_testing::run(engine, async |db: TestDb| {
                tell.send(db.name().to_owned()).unwrap();
                Err::<(), _>("this failure is the test's own")
            });
        });
        assert!(failing.join().is_err());
        let name = told.recv().unwrap();
        assert!(exists(engine, &name).await);
        db.execute(&format!("drop database {name}")).await;
    }
}
