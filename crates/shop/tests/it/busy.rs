//! Someone sits on a row for longer than a request may wait: the client is told so, may try again, and nothing was done.

use reqwest::Method;
use rowlock_testing::{Family, TestDb};
use serde_json::{Value, json};

use crate::support::{Town, settings};

rowlock_testing::engines! {
    async fn a_busy_row_is_told_and_may_be_tried_again(db: TestDb) {
        let mut settings = settings(&db, false);
        settings.lock_wait_ms = 200;
        let town = Town::with(settings).await;
        let account = town.account(100).await;
        let (tea, cup) = (town.item(account, 5, 10).await, town.item(account, 5, 10).await);
        let order = town.order(account, &[(tea, 1)]).await;

        let mut someone = db.connect().await;
        let (begin, lock) = match db.family() {
            // One writer at a time: whoever writes anything sits on everything.
            Family::Sqlite => ("begin immediate", format!("select id from inventories where id = {tea}")),
            _ => ("begin", format!("select id from inventories where id = {tea} for update")),
        };
        someone.run(begin).await.unwrap();
        someone.run(&lock).await.unwrap();
        let cancel = format!("/orders/{order}/cancel");
        let delivery = json!({"lines": [{"item": cup, "quantity": 1}, {"item": tea, "quantity": 1}]});
        for (path, body) in [(cancel.as_str(), Value::Null), ("/deliveries", delivery)] {
            let answer = town.post(path, body).await;
            assert_eq!(answer.headers["retry-after"], "1", "{path}: {:#}", answer.body);
            assert_eq!(answer.expect(409)["type"], "urn:shop:busy");
        }
        // A flash sale is not granted then, nor later: the same key asks again.
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let flash = async || {
            let body = json!({"account": account, "quantity": 1}).to_string();
            town.send(Method::POST, &format!("/flash-sales/{tea}/orders"), &headers, body.into_bytes()).await
        };
        let answer = flash().await;
        assert_eq!(answer.headers["retry-after"], "1", "{:#}", answer.body);
        assert_eq!(answer.expect(409)["type"], "urn:shop:busy");
        // What can be done without the row is done meanwhile.
        if db.family() != Family::Sqlite {
            town.post("/deliveries", json!({"lines": [{"item": cup, "quantity": 5}]})).await;
            assert_eq!(town.stock(cup).await, [15, 15, 0, 0]);
        }
        assert_eq!(town.stock(tea).await, [10, 9, 1, 0]);
        assert_eq!(town.status(order).await, "open");
        someone.run("rollback").await.unwrap();
        someone.close().await.unwrap();
        town.post(&cancel, Value::Null).await.expect(200);
        assert_eq!(town.stock(tea).await, [10, 10, 0, 0]);
        flash().await.expect(201);
        assert_eq!(town.stock(tea).await, [10, 9, 1, 0]);
        town.close().await;
    }
}

rowlock_testing::engines! { servers:
    /// A flash sale: more want one item than may wait for it. They are told at once, and everything else goes on, although
    /// each of those who wait would hold a connection and there are four.
    async fn a_hot_item_does_not_take_the_shop_down(db: TestDb) {
        const WANT: usize = 100;
        let mut settings = settings(&db, false);
        settings.connections = 4;
        let town = Town::with(settings).await;
        let buyer = town.account(10_000).await;
        let (tea, cup) = (town.item(buyer, 5, 1_000).await, town.item(buyer, 5, 10).await);
        let mut someone = db.connect().await;
        someone.run("begin").await.unwrap();
        someone.run(&format!("select id from inventories where id = {tea} for update")).await.unwrap();
        let away = std::sync::atomic::AtomicUsize::new(0);
        let wants = (0..WANT).map(|_| async {
            let answer = town.place(buyer, &[(tea, 1)], false).await;
            if answer.status == 429 {
                assert_eq!((answer.headers["retry-after"].to_str().unwrap(), answer.body["type"].as_str()), ("1", Some("urn:shop:too-many-waiting")));
                away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                return 0;
            }
            answer.expect(201);
            1
        });
        let meanwhile = async {
            // Two are at the item, 64 wait, the rest were turned away.
            while away.load(std::sync::atomic::Ordering::Relaxed) < WANT - 66 {
                tokio::task::yield_now().await;
            }
            // Another item, another table, and a page: on the connections that are left.
            town.order(buyer, &[(cup, 1)]).await;
            town.post("/transfers", json!({"from": buyer, "to": town.account(0).await, "amount": 1})).await.expect(201);
            assert_eq!(town.stock(tea).await, [1_000, 1_000, 0, 0]);
            someone.run("rollback").await.unwrap();
        };
        let (sold, ()) = tokio::join!(futures_util::future::join_all(wants), meanwhile);
        assert_eq!(sold.iter().sum::<i64>(), 66);
        assert_eq!(town.stock(tea).await, [1_000, 934, 66, 0]);
        someone.close().await.unwrap();
        town.close().await;
    }
}
