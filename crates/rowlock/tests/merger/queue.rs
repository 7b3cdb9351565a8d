//! The queue: full, fair, and left again.

use std::time::Duration;

use futures_util::{FutureExt, future::join_all};
use rowlock::{Engine, Error, Outcome};
use rowlock_testing::{Family, TestDb, engines};

use crate::{STOCK, start, start_with_ledger, support::open};

engines! {
    /// A refused quantity costs nothing.
    async fn negative_quantities_are_refused<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start(&db).await;
        let sent = db.counts().statements;
        assert!(matches!(merger.subtract(1, -1).await.unwrap_err(), Error::Quantity { .. }));
        assert_eq!(db.counts().statements, sent);
    }

    /// Alone it is one statement. With a token: BEGIN, the change, COMMIT with the token. With a ledger: BEGIN, the change,
    /// the entry, COMMIT; a repeat costs that much, and again with a look into the ledger.
    async fn statements_are_few<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let plain = start(&db).await;
        let token = db.kind("token").commit_token(true).merger(STOCK).start().await.unwrap();
        let ledger = start_with_ledger(&test, &db).await;
        // SQLite tells of what it changed and of nothing else: in a transaction it looks, then writes.
        let look = u64::from(test.family() == Family::Sqlite);
        let cost = async |call: rowlock::Subtract<E>| {
            let before = db.counts().statements;
            let outcome = call.await.unwrap();
            (outcome.is_applied(), db.counts().statements - before)
        };
        assert_eq!(cost(plain.subtract(1, 1)).await, (true, 1));
        assert_eq!(cost(token.subtract(1, 1)).await, (true, 3 + look));
        assert_eq!(cost(ledger.subtract(1, 1).request("a")).await, (true, 4 + look));
        assert!(cost(ledger.subtract(1, 1).request("a")).await.0);
        assert_eq!(test.value("select n from inventories where id = 1").await, "997");
    }

    async fn a_batch_that_gathers_is_one<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = db.kind("slow").merger(STOCK).linger(Duration::from_millis(300)).start().await.unwrap();
        let sent = db.counts().statements;
        let calls = (0..200).map(|n| {
            let call = merger.subtract(1 + n % 2, 1);
            tokio::spawn(call)
        });
        for call in join_all(calls).await {
            assert!(matches!(call.unwrap().unwrap(), Outcome::Applied { .. }));
        }
        assert!(db.counts().statements - sent <= 5, "{}", db.counts().statements - sent);
    }
}

engines! { servers:
    async fn a_full_queue_turns_away_or_lets_wait<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = db.kind("merged").merger(STOCK).queue(4).start().await.unwrap();
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select n from inventories where id = 1 for update").await;
        let first = tokio::spawn(merger.subtract(1, 1));
        test.until_blocked(1).await;
        // The first is under way. One key may have half of the room.
        let mut inside = [merger.subtract(1, 1).nowait(), merger.subtract(1, 1).nowait()];
        for call in &mut inside {
            assert!(call.now_or_never().is_none());
        }
        assert_eq!(merger.waiting(), 2);
        let error = merger.subtract(1, 1).nowait().await.unwrap_err();
        assert!(error.is_turned_away() && matches!(error, Error::Busy { resource: "Inventory", .. }), "{error:?}");
        // One that waits outside is in line, and not in the queue.
        let mut outside = merger.subtract(1, 1);
        assert!((&mut outside).now_or_never().is_none());
        assert_eq!(merger.waiting(), 2);
        // Another key has room, and is not held up by the busy one.
        assert_eq!(merger.subtract(2, 1).nowait().await.unwrap(), Outcome::Applied { value: 999 });
        // One that leaves makes room for the one outside.
        let [second, third] = inside;
        drop(third);
        assert_eq!(merger.waiting(), 2);
        holder.run("rollback").await;
        holder.close().await;
        let outcomes = [first.await.unwrap(), second.await, outside.await].map(Result::unwrap);
        assert_eq!(outcomes, [999, 998, 997].map(|value| Outcome::Applied { value }));
        assert_eq!((merger.waiting(), test.value("select n from inventories where id = 1").await), (0, "997".into()));
    }

    async fn who_withdraws_in_line_is_not_charged<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start(&db).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select n from inventories where id = 1 for update").await;
        let mut under_way = merger.subtract(1, 5);
        assert!((&mut under_way).now_or_never().is_none());
        test.until_blocked(1).await;
        let mut in_line = merger.subtract(1, 7);
        assert!((&mut in_line).now_or_never().is_none());
        assert!(in_line.withdraw());
        assert!(matches!(in_line.await.unwrap_err(), Error::Closed { .. }));
        assert!(!under_way.withdraw());
        let stays = merger.subtract(1, 11);
        holder.run("rollback").await;
        holder.close().await;
        assert_eq!(under_way.await.unwrap(), Outcome::Applied { value: 995 });
        assert_eq!(stays.await.unwrap(), Outcome::Applied { value: 984 });
    }

    /// A row that another holds for longer than the limit fails its own batch, and no other.
    async fn a_busy_row_fails_its_batch_alone<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = db.kind("merged").wait(Duration::from_secs(2)).attempts(1).merger(STOCK).start().await.unwrap();
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select n from inventories where id = 1 for update").await;
        let mut stuck = merger.subtract(1, 1);
        assert!((&mut stuck).now_or_never().is_none());
        test.until_blocked(1).await;
        for n in 0..20 {
            assert_eq!(merger.subtract(2, 1).await.unwrap(), Outcome::Applied { value: 999 - n });
        }
        let error = stuck.await.unwrap_err();
        assert!(error.is_busy() && matches!(error, Error::Merged { requests: 1, .. }), "{error:?}");
        holder.run("rollback").await;
        holder.close().await;
        assert_eq!(merger.subtract(1, 1).await.unwrap(), Outcome::Applied { value: 999 });
    }
}
