//! Payment events: believed when they are signed, and of effect once, however often they arrive.

use reqwest::Method;
use rowlock_testing::TestDb;
use serde_json::{Value, json};

use crate::support::Town;

fn payment(order: i64, amount: i64) -> Value {
    json!({"type": "payment.succeeded", "timestamp": "2026-01-01T00:00:00Z", "data": {"order": order, "amount": amount}})
}

rowlock_testing::engines! {
    async fn an_event_has_its_effect_once_and_one_answer(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(100).await, town.account(0).await);
        let tea = town.item(seller, 5, 10).await;
        let order = town.order(buyer, &[(tea, 2)]).await;
        let first = town.paid("evt_1", order, 10).await;
        assert_eq!(first, json!({"event": "evt_1", "outcome": "applied", "order": order}));
        for _ in 0..3 {
            assert_eq!(town.paid("evt_1", order, 10).await, first);
        }
        // Another event of the same payment: the order is paid already.
        assert_eq!(town.paid("evt_2", order, 10).await["outcome"], "order_paid");
        // An event's id that comes again with another body is still that event.
        let other = town.order(buyer, &[(tea, 1)]).await;
        assert_eq!(town.paid("evt_1", other, 5).await, first);
        assert_eq!(town.status(other).await, "open");
        assert_eq!((town.balance(buyer).await, town.balance(seller).await), (90, 10));
        assert_eq!(town.stock(tea).await, [10, 7, 1, 2]);
        town.close().await;
    }

    async fn deliveries_at_once_have_one_effect(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(1_000).await, town.account(0).await);
        let tea = town.item(seller, 5, 100).await;
        for round in 0..5 {
            let order = town.order(buyer, &[(tea, 2)]).await;
            let event = format!("evt_{round}");
            let deliveries = (0..8).map(|_| town.paid(&event, order, 10));
            for answer in futures_util::future::join_all(deliveries).await {
                assert_eq!(answer, json!({"event": event, "outcome": "applied", "order": order}));
            }
            assert_eq!(town.balance(seller).await, 10 * (round + 1));
            // Without an order there is no lock that they could share.
            let event = format!("evt_lost_{round}");
            let deliveries = (0..8).map(|_| town.paid(&event, 1, 10));
            for answer in futures_util::future::join_all(deliveries).await {
                assert_eq!(answer, json!({"event": event, "outcome": "no_such_order", "order": 1}));
            }
            let event = format!("evt_other_{round}");
            let other = json!({"type": "customer.created", "data": {}});
            let deliveries = (0..8).map(|_| town.deliver(&event, 0, &other));
            for answer in futures_util::future::join_all(deliveries).await {
                assert_eq!(answer.expect(200), json!({"event": event, "outcome": "ignored"}));
            }
        }
        town.close().await;
    }

    async fn what_cannot_be_applied_is_kept_and_acknowledged(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(12).await, town.account(0).await);
        let tea = town.item(seller, 5, 10).await;
        let order = town.order(buyer, &[(tea, 2)]).await;
        let dear = town.order(buyer, &[(tea, 3)]).await;
        let cancelled = town.order(buyer, &[(tea, 1)]).await;
        town.post(&format!("/orders/{cancelled}/cancel"), json!(null)).await.expect(200);
        for (event, order, amount, outcome) in [
            ("evt_missing", 1, 10, "no_such_order"),
            ("evt_negative", -1, 10, "no_such_order"),
            ("evt_less", order, 9, "amount_differs"),
            ("evt_minus", order, -10, "amount_differs"),
            ("evt_dear", dear, 15, "insufficient"),
            ("evt_late", cancelled, 5, "order_cancelled"),
        ] {
            for _ in 0..2 {
                assert_eq!(town.paid(event, order, amount).await["outcome"], outcome, "{event}");
            }
        }
        // What was insufficient stays so for that event; another event may find the money.
        town.post("/transfers", json!({"from": buyer, "to": seller, "amount": 1})).await.expect(201);
        assert_eq!(town.paid("evt_good", order, 10).await["outcome"], "applied");
        for _ in 0..2 {
            let other = town.deliver("evt_other", 0, &json!({"type": "customer.created", "data": {"a": 1}})).await;
            assert_eq!(other.expect(200), json!({"event": "evt_other", "outcome": "ignored"}));
        }
        assert_eq!(db.value("select count(*) from events").await, "8");
        town.close().await;
    }

    async fn what_is_not_signed_is_not_believed(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(100).await;
        let tea = town.item(buyer, 5, 10).await;
        let order = town.order(buyer, &[(tea, 2)]).await;
        let body = payment(order, 10).to_string();
        let now = (shop::order::now() / 1000).to_string();
        let good = town.running.signer().sign("evt", now.parse().unwrap(), body.as_bytes()).unwrap();
        let other = shop::webhook::Signer::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
        let wrong = other.sign("evt", now.parse().unwrap(), body.as_bytes()).unwrap();
        let long = "e".repeat(201);
        for (status, id, timestamp, signature, says) in [
            (401, "evt", now.as_str(), wrong.as_str(), "webhook-signature"),
            (401, "evt", now.as_str(), "v1,short", "webhook-signature"),
            (401, "evt", now.as_str(), "", "webhook-signature"),
            (401, "another", now.as_str(), good.as_str(), "webhook-signature"),
            (401, "evt", "1", good.as_str(), "five minutes old"),
            (401, "evt", "9999999999", good.as_str(), "five minutes ahead"),
            (400, "evt", "soon", good.as_str(), "webhook-timestamp"),
            (400, "", now.as_str(), good.as_str(), "webhook-id"),
            (400, "a b", now.as_str(), good.as_str(), "webhook-id"),
            (400, long.as_str(), now.as_str(), good.as_str(), "webhook-id"),
        ] {
            let headers = [
                ("content-type", "application/json"),
                ("webhook-id", id),
                ("webhook-timestamp", timestamp),
                ("webhook-signature", signature),
            ];
            let answer = town.send(Method::POST, "/webhooks/payments", &headers, body.clone().into_bytes()).await;
            let problem = answer.expect(status);
            assert!(problem["detail"].as_str().unwrap().contains(says), "{problem:#}");
        }
        let headers = [("content-type", "application/json"), ("webhook-id", "evt"), ("webhook-timestamp", now.as_str())];
        let answer = town.send(Method::POST, "/webhooks/payments", &headers, body.clone().into_bytes()).await.expect(400);
        assert!(answer["detail"].as_str().unwrap().contains("webhook-signature: is missing"), "{answer:#}");
        for (age, status) in [(-200, 200), (-400, 401), (400, 401)] {
            town.deliver(&format!("evt_aged{age}"), age, &payment(1, 1)).await.expect(status);
        }
        assert_eq!(town.status(order).await, "open");
        town.close().await;
    }

    async fn a_genuine_body_may_be_wrong_all_the_same(db: TestDb) {
        let town = Town::open(&db).await;
        let long = "t".repeat(201);
        for (body, at) in [
            (json!({}), None),
            (json!({"type": 1}), Some("type")),
            (json!({"type": ""}), Some("type")),
            (json!({"type": "a\0"}), Some("type")),
            (json!({"type": long}), Some("type")),
            (json!({"type": "payment.succeeded"}), Some("data")),
            (json!({"type": "payment.succeeded", "data": {"order": 1}}), Some("data")),
            (json!({"type": "payment.succeeded", "data": {"order": "1", "amount": 1}}), Some("data.order")),
            (json!({"type": "payment.succeeded", "data": {"order": 1, "amount": 1.5}}), Some("data.amount")),
        ] {
            let problem = town.deliver("evt", 0, &body).await.expect(422);
            if at.is_some() {
                assert_eq!(problem["at"].as_str(), at, "{body}: {problem:#}");
            }
        }
        let mut deep = json!(1);
        for _ in 0..200 {
            deep = json!([deep]);
        }
        town.deliver("evt", 0, &json!({"type": "a", "data": deep})).await.expect(400);
        assert_eq!(db.value("select count(*) from events").await, "0");
        town.close().await;
    }
}
