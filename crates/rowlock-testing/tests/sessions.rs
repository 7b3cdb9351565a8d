//! What the driver says of waits and locks is what the servers do.

use rowlock_footprint::Strength;
use rowlock_testing::{Engine, Family, Outcome, TestDb, interleavings};

const TABLE: &str = "create table inventories (id int primary key, stock int not null, sku int unique);
                     insert into inventories values (20, 5, 1), (30, 5, 2)";

rowlock_testing::engines! { servers:
    async fn a_known_deadlock(db: TestDb) {
        db.execute(TABLE).await;
        let transcript = db
            .schedule(
                "api: begin
                 webhook: begin
                 api: update inventories set stock = 4 where id = 20
                 webhook: update inventories set stock = 4 where id = 30
                 api: update inventories set stock = 4 where id = 30
                 webhook: update inventories set stock = 4 where id = 20",
            )
            .await;
        assert_eq!(transcript.deadlocks().count(), 1, "{transcript}");
        assert_eq!(transcript.0[4].waited_for, ["webhook"], "{transcript}");
        // The one that was not the victim got on.
        assert_eq!(transcript.0[4..].iter().filter(|step| step.outcome.is_done()).count(), 1, "{transcript}");
    }

    async fn a_blocked_statement_goes_on_when_its_blocker_ends(db: TestDb) {
        db.execute(TABLE).await;
        let [mut a, mut b] = db.sessions(["a", "b"]).await;
        a.run("begin").await;
        a.run("select * from inventories where id = 20 for update").await;
        b.run("begin").await;
        b.start("update inventories set stock = stock - 1 where id = 20");
        b.assert_blocked_by(&a).await;
        let waits = db.until_blocked(1).await;
        assert_eq!((waits[0].waiting, waits[0].blocking), (b.id(), a.id()));
        a.run("commit").await;
        assert!(b.outcome().await.is_done());
        assert!(db.waits().await.is_empty());
    }

    async fn a_wait_is_cancelled_and_a_session_killed(db: TestDb) {
        db.execute(TABLE).await;
        let [mut a, mut b] = db.sessions(["a", "b"]).await;
        a.run("begin").await;
        a.run("update inventories set stock = 3 where id = 20").await;
        b.run("begin").await;
        assert!(b.step("update inventories set stock = 2 where id = 20").await.is_blocked());
        b.cancel().await;
        let code = if db.family() == Family::Postgres { "57014" } else { "1317" };
        assert_eq!(b.outcome().await.code(), Some(code));
        b.run("rollback").await;
        assert!(b.step("update inventories set stock = 2 where id = 20").await.is_blocked());
        a.kill().await;
        assert!(b.outcome().await.is_done());
        assert!(matches!(a.step("commit").await, Outcome::Failed { .. }));
    }

    async fn probes_find_each_strength(db: TestDb) {
        db.execute(TABLE).await;
        let cases: &[(&str, Strength)] = match db.family() {
            Family::Postgres => &[
                ("select * from inventories where id = 20 for key share", Strength::KeyShare),
                ("select * from inventories where id = 20 for share", Strength::Share),
                ("update inventories set stock = 1 where id = 20", Strength::NoKeyUpdate),
                ("update inventories set sku = 9 where id = 20", Strength::Update),
                ("delete from inventories where id = 20", Strength::Update),
            ],
            _ => &[
                ("select * from inventories where id = 20 lock in share mode", Strength::Share),
                ("update inventories set stock = 1 where id = 20", Strength::Update),
            ],
        };
        let mut a = db.session("a").await;
        for &(statement, strength) in cases {
            a.run("begin").await;
            a.run(statement).await;
            assert_eq!(db.held("inventories", "id = 20").await, Some(strength), "{statement}");
            assert_eq!(db.held("inventories", "id = 30").await, None, "{statement}");
            a.run("rollback").await;
        }
        assert_eq!(db.held("inventories", "id = 20").await, None);
    }

    async fn an_inserted_row_is_found_by_a_colliding_insert(db: TestDb) {
        db.execute(TABLE).await;
        let mut a = db.session("a").await;
        a.run("begin").await;
        a.run("insert into inventories values (40, 1, 4)").await;
        assert!(db.would_wait("insert into inventories values (40, 1, 5)").await);
        assert!(!db.would_wait("insert into inventories values (50, 1, 5)").await);
    }
}

rowlock_testing::engines! { sqlite:
    async fn nothing_waits(db: TestDb) {
        db.execute(TABLE).await;
        let [mut a, mut b] = db.sessions(["a", "b"]).await;
        a.run("begin immediate").await;
        assert_eq!(b.step("begin immediate").await.code(), Some("5"));
        assert_eq!(db.held("inventories", "id = 20").await, Some(Strength::Update));
        assert!(db.would_wait("update inventories set stock = 1 where id = 20").await);
        a.run("commit").await;
        assert_eq!(db.held("inventories", "id = 20").await, None);
        assert_eq!(db.engine(), Engine::Sqlite);
    }
}

rowlock_testing::engines! { servers:
    /// MySQL writes the mover's thread to a waiting lock that an update moved to where the longer row stands.
    async fn a_wait_is_seen_when_its_lock_was_moved(db: TestDb) {
        db.execute("create table t (id int primary key, note varchar(100) not null)").await;
        db.execute("insert into t values (1, 'a'), (2, 'b')").await;
        let [mut a, mut b] = db.sessions(["a", "b"]).await;
        a.run("begin").await;
        a.run("update t set note = 'c' where id = 1").await;
        b.start("select id from t where id = 1 for update");
        b.assert_blocked_by(&a).await;
        a.run("update t set note = 'much longer than it was before' where id = 1").await;
        b.assert_blocked_by(&a).await;
        a.run("commit").await;
        assert!(b.outcome().await.is_done());
    }

    async fn a_stage_finds_the_interleaving_that_deadlocks(db: TestDb) {
        db.execute("create table t (id int primary key, n int not null)").await;
        db.execute("insert into t values (1, 0), (2, 0)").await;
        let update = |id: u32| format!("update t set n = n + 1 where id = {id}");
        let (up, down) = ([update(1), update(2)], [update(2), update(1)]);
        let mut stage = db.stage(2).await;
        let orders = interleavings(&[2, 2], |_, _| true);
        for (second, expected) in [(&up, 0), (&down, 4)] {
            let mut deadlocks = 0;
            for order in &orders {
                let ended = stage.run(&[&up, second], order, None).await;
                assert_eq!(ended.failures, []);
                deadlocks += usize::from(ended.deadlock.is_some());
            }
            assert_eq!(deadlocks, expected);
        }
    }
}
