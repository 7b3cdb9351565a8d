//! Editing an order from the version that was read: `ETag`, `If-Match`, and what others did meanwhile.

use reqwest::Method;
use rowlock_testing::TestDb;
use serde_json::{Value, json};

use crate::support::{Answer, Town, id};

async fn edit(town: &Town, order: i64, read: Option<&str>, revision: Value) -> Answer {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(read.map(|tag| ("if-match", tag)));
    town.send(Method::PATCH, &format!("/orders/{order}"), &headers, revision.to_string().into_bytes()).await
}

/// The tag of an order's page.
fn tag(answer: &Answer) -> String {
    String::from_utf8_lossy(answer.headers["etag"].as_bytes()).into_owned()
}

rowlock_testing::engines! {
    async fn the_second_of_two_editors_is_told(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 10).await;
        let placed = town.place(buyer, &[(tea, 1)], false).await;
        let read = tag(&placed);
        let order = id(&placed.body);
        let page = town.get(&format!("/orders/{order}")).await;
        assert_eq!((read.as_str(), tag(&page), page.body["version"].as_i64()), ("\"0\"", read.clone(), Some(0)));
        // Both have read version 0.
        let first = edit(&town, order, Some(&read), json!({"note": "ring twice"})).await;
        assert_eq!((tag(&first).as_str(), first.expect(200)["note"].as_str()), ("\"1\"", Some("ring twice")));
        let second = edit(&town, order, Some(&read), json!({"note": "leave it at the door"})).await;
        assert_eq!(tag(&second), "\"1\"", "what there is now");
        let told = second.expect(412);
        assert_eq!(told["type"], "urn:shop:changed", "{told:#}");
        assert_eq!(told["detail"], format!("order {order} has changed: it is version 1, and version 0 was read"));
        assert_eq!(town.get(&format!("/orders/{order}")).await.body["note"], "ring twice");
        // He reads again; among several tags, the one that there is.
        let again = edit(&town, order, Some("\"0\", W/\"9\", \"x,y\", \"1\""), json!({"note": "both"})).await;
        assert_eq!(again.expect(200)["version"], 2);
        // Whatever else changes the order is seen too: here its payment.
        town.paid("evt-1", order, 5).await;
        let late = edit(&town, order, Some("\"2\""), json!({"note": "too late"})).await;
        assert_eq!((tag(&late), late.expect(412)["type"].as_str()), ("\"3\"".to_owned(), Some("urn:shop:changed")));
        let paid = edit(&town, order, Some("\"3\""), json!({"note": "too late"})).await.expect(409);
        assert_eq!(paid["type"], "urn:shop:not-open", "{paid:#}");
        let cancelled = town.post(&format!("/orders/{order}/cancel"), Value::Null).await;
        assert_eq!((tag(&cancelled).as_str(), cancelled.expect(200)["version"].as_i64()), ("\"4\"", Some(4)));
        town.close().await;
    }

    async fn the_version_is_asked_for(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 10).await;
        let order = town.order(buyer, &[(tea, 1)]).await;
        let note = json!({"note": "x"});
        for (tag, status, kind) in [
            (None, 428, "if-match"),
            (Some("*"), 428, "if-match"),
            (Some("0"), 400, "bad-tag"),
            (Some("\"0"), 400, "bad-tag"),
            (Some("W/\"0\""), 412, "changed"),
            (Some("\"00\""), 412, "changed"),
            (Some("\"7\""), 412, "changed"),
            (Some("\"99999999999999999999\""), 412, "changed"),
        ] {
            let told = edit(&town, order, tag, note.clone()).await.expect(status);
            assert_eq!(told["type"], format!("urn:shop:{kind}"), "{tag:?}: {told:#}");
        }
        for (revision, at) in [
            (json!({}), "note"),
            (json!({"note": "x".repeat(501)}), "note"),
            (json!({"note": "a\0b"}), "note"),
            (json!({"lines": []}), "lines"),
            (json!({"lines": [{"item": tea, "quantity": 0}]}), "lines[0].quantity"),
            (json!({"lines": [{"item": 1, "quantity": 1}]}), "lines"),
            (json!({"status": "paid"}), "status"),
        ] {
            let told = edit(&town, order, Some("\"0\""), revision).await.expect(422);
            assert_eq!(told["at"], at, "{told:#}");
        }
        assert_eq!(edit(&town, 999, Some("\"0\""), note).await.expect(404)["type"], "urn:shop:not-found");
        let path = format!("/orders/{order}");
        for (header, status) in [("\"0\"", 304), ("W/\"0\"", 304), ("*", 304), ("\"1\"", 200), ("0", 400)] {
            let answer = town.send(Method::GET, &path, &[("if-none-match", header)], vec![]).await;
            assert_eq!(answer.status.as_u16(), status, "{header}");
            assert!(status == 400 || tag(&answer) == "\"0\"");
        }
        assert_eq!(town.get(&path).await.body["version"], 0, "nothing of it was done");
        town.close().await;
    }

    async fn other_lines_move_the_stock_by_the_difference(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(1_000).await, town.account(0).await);
        let (tea, cup, pot) = (town.item(seller, 5, 10).await, town.item(seller, 20, 3).await, town.item(seller, 50, 2).await);
        let order = town.order(buyer, &[(tea, 4), (cup, 2)]).await;
        let lines = json!([{"item": pot, "quantity": 1}, {"item": tea, "quantity": 6}]);
        let edited = edit(&town, order, Some("\"0\""), json!({"lines": lines, "note": "gift"})).await.expect(200);
        assert_eq!((edited["total"].as_i64(), edited["version"].as_i64(), edited["note"].as_str()), (Some(80), Some(1), Some("gift")));
        assert_eq!(town.get(&format!("/orders/{order}")).await.expect(200), edited);
        assert_eq!((town.stock(tea).await, town.stock(cup).await, town.stock(pot).await), ([10, 4, 6, 0], [3, 3, 0, 0], [2, 1, 1, 0]));
        // More than there is: nothing of it is done, the version stays.
        let lines = json!([{"item": tea, "quantity": 10}, {"item": pot, "quantity": 3}]);
        let told = edit(&town, order, Some("\"1\""), json!({"lines": lines, "note": "more"})).await.expect(409);
        assert_eq!(told["type"], "urn:shop:out-of-stock", "{told:#}");
        assert_eq!(town.get(&format!("/orders/{order}")).await.expect(200), edited);
        town.paid("evt-1", order, 80).await;
        assert_eq!((town.balance(seller).await, town.stock(tea).await), (80, [10, 4, 0, 6]));
        town.close().await;
    }

    /// Each edit that was answered with a version was that version, and no two got the same.
    async fn of_many_editors_at_once_each_version_has_one(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 100).await;
        let order = town.order(buyer, &[(tea, 1)]).await;
        let editors = (1..=12).map(|n| {
            let town = &town;
            async move {
                let lines = json!([{"item": tea, "quantity": n}]);
                let mut read = "\"0\"".to_owned();
                loop {
                    let answer = edit(town, order, Some(&read), json!({ "lines": lines })).await;
                    read = tag(&answer);
                    match answer.status.as_u16() {
                        200 => return answer.body["version"].as_i64().unwrap(),
                        status => assert_eq!(status, 412, "{:#}", answer.body),
                    }
                }
            }
        });
        let mut versions = futures_util::future::join_all(editors).await;
        versions.sort_unstable();
        assert_eq!(versions, (1..=12).collect::<Vec<i64>>());
        town.close().await;
    }
}
