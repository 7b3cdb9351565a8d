//! Someone sits on a row for longer than a request may wait: the client is told so, may try again, and nothing was done.

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
        town.close().await;
    }
}
