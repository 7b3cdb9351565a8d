//! The proxy loses what it was told to lose, and delays what it was told to delay.

#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use std::time::{Duration, Instant};

use rowlock_testing::{Connection, Engine, Lost, Proxy, TestDb};

async fn commit_through(db: &TestDb, proxy: &Proxy, id: i32) -> bool {
    let mut connection = Connection::open(db.engine(), proxy.url()).await.unwrap();
    connection.run("begin").await.unwrap();
    connection.run(&format!("insert into t values ({id})")).await.unwrap();
    connection.run("COMMIT").await.is_ok()
}

async fn rows(db: &TestDb) -> String {
    db.value("select count(*) from t").await
}

rowlock_testing::engines! { servers:
    async fn a_lost_commit_is_not_done(db: TestDb) {
        db.execute("create table t (id int primary key)").await;
        let proxy = Proxy::to(db.url()).await.unwrap();
        proxy.cut_at("commit", Lost::Request);
        assert!(!commit_through(&db, &proxy, 1).await);
        proxy.until_cut(1).await;
        // Its own insert waits until the server has rolled the lost transaction back.
        assert!(commit_through(&db, &proxy, 1).await);
        assert_eq!((rows(&db).await.as_str(), proxy.cuts()), ("1", 1));
    }

    async fn a_lost_answer_is_done(db: TestDb) {
        db.execute("create table t (id int primary key)").await;
        let proxy = Proxy::to(db.url()).await.unwrap();
        proxy.cut_at("commit", Lost::Answer);
        assert!(!commit_through(&db, &proxy, 1).await);
        assert_eq!((rows(&db).await.as_str(), proxy.cuts()), ("1", 1));
    }

    async fn all_connections_are_cut(db: TestDb) {
        let proxy = Proxy::to(db.url()).await.unwrap();
        let mut connection = Connection::open(db.engine(), proxy.url()).await.unwrap();
        connection.run("select 1").await.unwrap();
        proxy.cut_all();
        assert!(connection.run("select 1").await.is_err());
        let mut next = Connection::open(db.engine(), proxy.url()).await.unwrap();
        assert!(next.run("select 1").await.is_ok());
    }
}

rowlock_testing::engines! { pg15:
    async fn many_are_under_way_at_once(db: TestDb) {
        const ONE_WAY: Duration = Duration::from_millis(20);
        let proxy = Proxy::delayed(db.url(), ONE_WAY).await.unwrap();
        let mut connections = Vec::new();
        for _ in 0..16 {
            connections.push(Connection::open(Engine::Pg15, proxy.url()).await.unwrap());
        }
        let since = Instant::now();
        let asks = connections.into_iter().map(|mut connection| {
            tokio::spawn(async move {
                let since = Instant::now();
                connection.run("select 1").await.unwrap();
                since.elapsed()
            })
        });
        for ask in asks.collect::<Vec<_>>() {
            assert!(ask.await.unwrap() >= 2 * ONE_WAY);
        }
        // One after the other they would take sixteen round trips.
        assert!(since.elapsed() < 8 * 2 * ONE_WAY, "{:?}", since.elapsed());
    }
}
