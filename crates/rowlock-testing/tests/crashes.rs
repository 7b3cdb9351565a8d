//! A server that crashed comes back at its URL, with what was committed and without what was not.

#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use rowlock_testing::server::Servers;
use rowlock_testing::{Connection, TestDb};

rowlock_testing::engines! { servers:
    async fn what_was_committed_survives(db: TestDb) {
        // Other tests use the shared server: this one crashes its own.
        let servers = Servers::private().unwrap().durable();
        let server = servers.start(db.engine()).await.unwrap();
        let mut connection = Connection::open(db.engine(), &server.url).await.unwrap();
        for statement in [
            "create table survivors (id int primary key)",
            "insert into survivors values (1)",
            "begin",
            "insert into survivors values (2)",
        ] {
            connection.run(statement).await.unwrap();
        }
        servers.crash(db.engine()).unwrap();
        assert!(connection.run("commit").await.is_err());
        let again = servers.restart(db.engine()).await.unwrap();
        assert_eq!(again.url, server.url);
        let mut connection = Connection::open(db.engine(), &again.url).await.unwrap();
        let rows = connection.run("select id from survivors").await.unwrap().rows;
        assert_eq!(rows, [[Some("1".to_owned())]]);
    }
}
