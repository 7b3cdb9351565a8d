//! A network that loses what matters most: the COMMIT, or the answer to it. What was asked is done once, and the client
//! learns of it.

use rowlock_testing::{Lost, Proxy, TestDb};
use serde_json::json;

use crate::support::{Town, id, settings};

/// A shop whose way to its database leads through a proxy.
async fn town(db: &TestDb) -> (Proxy, Town) {
    let proxy = Proxy::to(db.url()).await.unwrap();
    let mut settings = settings(db, false);
    settings.database = Some(proxy.url().to_owned());
    let town = Town::with(settings).await;
    (proxy, town)
}

rowlock_testing::engines! { servers:
    async fn an_order_whose_commit_is_lost_is_placed_once(db: TestDb) {
        let (proxy, town) = town(&db).await;
        let (buyer, seller) = (town.account(1_000).await, town.account(0).await);
        let tea = town.item(seller, 5, 100).await;
        for (n, lost) in (1..).zip([Lost::Answer, Lost::Request, Lost::Answer]) {
            proxy.cut_at("commit", lost);
            let order = id(&town.place(buyer, &[(tea, 2)], true).await.expect(201));
            assert_eq!(proxy.cuts(), n);
            assert_eq!(town.status(order).await, "paid");
            let n = i64::try_from(n).unwrap();
            assert_eq!((town.balance(seller).await, town.stock(tea).await), (10 * n, [100, 100 - 2 * n, 0, 2 * n]));
        }
        assert_eq!(town.get("/orders").await.expect(200).as_array().unwrap().len(), 3);
        town.close().await;
    }

    async fn a_transfer_whose_commit_is_lost_is_made_once(db: TestDb) {
        let (proxy, town) = town(&db).await;
        let (one, other) = (town.account(1_000).await, town.account(0).await);
        for (n, lost) in (1..).zip([Lost::Answer, Lost::Request]) {
            proxy.cut_at("commit", lost);
            town.post("/transfers", json!({"from": one, "to": other, "amount": 10})).await.expect(201);
            assert_eq!(proxy.cuts(), n);
            assert_eq!(town.balance(other).await, 10 * i64::try_from(n).unwrap());
        }
        town.close().await;
    }

    async fn an_event_whose_commit_is_lost_is_applied_once_by_its_next_delivery(db: TestDb) {
        let (proxy, town) = town(&db).await;
        let (buyer, seller) = (town.account(1_000).await, town.account(0).await);
        let tea = town.item(seller, 5, 100).await;
        for (n, lost) in (1..).zip([Lost::Answer, Lost::Request]) {
            let order = town.order(buyer, &[(tea, 2)]).await;
            proxy.cut_at("commit", lost);
            let event = format!("evt_{n}");
            let body = json!({"type": "payment.succeeded", "data": {"order": order, "amount": 10}});
            let first = town.deliver(&event, 0, &body).await;
            assert_eq!(proxy.cuts(), n);
            // Events carry no token: the sender is told that it is not known, and sends again.
            if first.status != 200 {
                assert_eq!(first.expect(503)["type"], "urn:shop:unknown");
            }
            assert_eq!(town.paid(&event, order, 10).await["outcome"], "applied");
            assert_eq!(town.balance(seller).await, 10 * i64::try_from(n).unwrap());
        }
        town.close().await;
    }
}
