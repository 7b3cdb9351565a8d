//! What becomes of orders, stock and money.

use rowlock_testing::TestDb;
use serde_json::json;

use crate::support::{Town, id};

rowlock_testing::engines! {
    async fn an_order_reserves_and_a_cancel_gives_back(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(1_000).await, town.account(0).await);
        let (tea, cup) = (town.item(seller, 5, 10).await, town.item(seller, 20, 3).await);
        // The lines as a client lists them, one item twice: merged where it first stands.
        let placed = town.place(buyer, &[(cup, 1), (tea, 2), (cup, 1)], false).await;
        let location = placed.headers["location"].to_str().unwrap().to_owned();
        let order = placed.expect(201);
        assert_eq!(location, format!("/orders/{}", id(&order)));
        assert_eq!((order["status"].as_str(), order["total"].as_i64()), (Some("open"), Some(50)));
        assert_eq!(order["lines"][0], json!({"line": 1, "item": cup, "quantity": 2, "price": 20, "seller": seller}));
        assert_eq!(town.get(&location).await.expect(200), order);
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([10, 8, 2, 0], [3, 1, 2, 0]));
        let cancel = format!("{location}/cancel");
        assert_eq!(town.post(&cancel, json!(null)).await.expect(200)["status"], "cancelled");
        assert_eq!(town.post(&cancel, json!(null)).await.expect(200)["status"], "cancelled");
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([10, 10, 0, 0], [3, 3, 0, 0]));
        town.close().await;
    }

    /// Each statement is a trip, and those after the item is taken are made while others wait for it.
    async fn an_order_is_placed_in_few_statements(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let (tea, cup) = (town.item(buyer, 5, 10).await, town.item(buyer, 20, 3).await);
        let statements = async || town.get("/stats").await.expect(200)["locks"]["statements"].as_i64().unwrap();
        let start = statements().await;
        town.order(buyer, &[(tea, 2)]).await;
        let one = statements().await;
        town.order(buyer, &[(tea, 2), (cup, 1)]).await;
        let two = statements().await;
        // Account, prices, order, item, lines, BEGIN and COMMIT with its token; and for several items their lock.
        assert_eq!((one - start, two - one), (7, 8));
        // Too little: the lock tells how much there is.
        town.place(buyer, &[(tea, 7)], false).await.expect(409);
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([10, 6, 4, 0], [3, 2, 1, 0]));
        town.close().await;
    }

    async fn a_paid_order_moves_money_and_its_cancel_moves_it_back(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, one, other) = (town.account(100).await, town.account(0).await, town.account(0).await);
        let (tea, cup) = (town.item(one, 5, 10).await, town.item(other, 20, 3).await);
        let order = id(&town.place(buyer, &[(tea, 2), (cup, 1)], true).await.expect(201));
        assert_eq!(town.status(order).await, "paid");
        assert_eq!((town.balance(buyer).await, town.balance(one).await, town.balance(other).await), (70, 10, 20));
        assert_eq!(town.stock(tea).await, [10, 8, 0, 2]);
        // What the buyer cannot pay is not reserved either.
        let answer = town.place(buyer, &[(tea, 8), (cup, 2)], true).await.expect(409);
        assert_eq!(answer["type"], "urn:shop:insufficient", "{answer:#}");
        assert_eq!(town.stock(tea).await, [10, 8, 0, 2]);
        town.post(&format!("/orders/{order}/cancel"), json!(null)).await.expect(200);
        assert_eq!((town.balance(buyer).await, town.balance(one).await, town.balance(other).await), (100, 0, 0));
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([10, 10, 0, 0], [3, 3, 0, 0]));
        town.close().await;
    }

    async fn a_seller_without_the_money_cannot_refund(db: TestDb) {
        let town = Town::open(&db).await;
        let (buyer, seller) = (town.account(100).await, town.account(0).await);
        let tea = town.item(seller, 5, 10).await;
        let order = id(&town.place(buyer, &[(tea, 2)], true).await.expect(201));
        town.post("/transfers", json!({"from": seller, "to": buyer, "amount": 1})).await.expect(201);
        let answer = town.post(&format!("/orders/{order}/cancel"), json!(null)).await.expect(409);
        assert_eq!(answer["type"], "urn:shop:insufficient", "{answer:#}");
        assert_eq!((town.status(order).await.as_str(), town.stock(tea).await), ("paid", [10, 8, 0, 2]));
        town.close().await;
    }

    async fn a_seller_may_buy_from_himself(db: TestDb) {
        let town = Town::open(&db).await;
        let seller = town.account(100).await;
        let tea = town.item(seller, 5, 10).await;
        town.place(seller, &[(tea, 2)], true).await.expect(201);
        assert_eq!(town.balance(seller).await, 100);
        town.close().await;
    }

    async fn the_batch_expires_what_is_old_and_open(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let (tea, cup) = (town.item(buyer, 5, 100).await, town.item(buyer, 5, 100).await);
        let mut open = vec![];
        for n in 1..=5 {
            open.push(town.order(buyer, &[(cup, n), (tea, 1)]).await);
        }
        let paid = id(&town.place(buyer, &[(tea, 1)], true).await.expect(201));
        let young = json!({"older_than_ms": 60_000, "limit": 10});
        assert_eq!(town.post("/batch/expire", young).await.expect(200)["expired"], json!([]));
        // "Older than 0 ms" leaves out what was placed in this very millisecond; an order's age is read off its own row.
        let placed_at = town.get(&format!("/orders/{paid}")).await.expect(200)["placed_at"].as_i64().unwrap();
        while shop::order::now() <= placed_at {
            tokio::task::yield_now().await;
        }
        let two = town.post("/batch/expire", json!({"older_than_ms": 0, "limit": 2})).await.expect(200);
        assert_eq!(two["expired"].as_array().unwrap().len(), 2);
        let rest = town.post("/batch/expire", json!({"older_than_ms": 0, "limit": 10})).await.expect(200);
        assert_eq!(rest["expired"].as_array().unwrap().len(), 3);
        for order in &open {
            assert_eq!(town.status(*order).await, "expired");
        }
        assert_eq!(town.status(paid).await, "paid");
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([100, 99, 0, 1], [100, 100, 0, 0]));
        let answer = town.post(&format!("/orders/{}/cancel", open[0]), json!(null)).await.expect(409);
        assert_eq!(answer["type"], "urn:shop:not-open", "{answer:#}");
        town.close().await;
    }

    async fn deliveries_and_transfers_add_up(db: TestDb) {
        let town = Town::open(&db).await;
        let (one, other) = (town.account(100).await, town.account(0).await);
        let (tea, cup) = (town.item(one, 5, 0).await, town.item(one, 5, 1).await);
        let lines = json!([{"item": cup, "quantity": 2}, {"item": tea, "quantity": 3}, {"item": cup, "quantity": 1}]);
        let answer = town.post("/deliveries", json!({ "lines": lines })).await;
        assert_eq!(answer.status, 204);
        assert_eq!((town.stock(tea).await, town.stock(cup).await), ([3, 3, 0, 0], [4, 4, 0, 0]));
        town.post("/transfers", json!({"from": one, "to": other, "amount": 60})).await.expect(201);
        let answer = town.post("/transfers", json!({"from": one, "to": other, "amount": 60})).await.expect(409);
        assert!(answer["detail"].as_str().unwrap().contains("holds 40, 60 is needed"), "{answer:#}");
        assert_eq!((town.balance(one).await, town.balance(other).await), (40, 60));
        town.close().await;
    }

    async fn names_are_kept_as_they_came(db: TestDb) {
        let town = Town::open(&db).await;
        let seller = town.account(0).await;
        for name in ["Grüner Tee ☕ 🍵", "'; drop table items; --", "  blanks ", "%s \\0 \u{202e}"] {
            let item = json!({"name": name, "seller": seller, "price": 1});
            let made = town.post("/items", item).await.expect(201);
            assert_eq!(town.get(&format!("/items/{}", id(&made))).await.expect(200)["name"], name);
        }
        town.close().await;
    }

    async fn lists_come_in_pages(db: TestDb) {
        let town = Town::open(&db).await;
        let buyer = town.account(1_000).await;
        let tea = town.item(buyer, 5, 100).await;
        let mut orders = vec![];
        for _ in 0..5 {
            orders.push(town.order(buyer, &[(tea, 1)]).await);
        }
        town.post(&format!("/orders/{}/cancel", orders[0]), json!(null)).await.expect(200);
        orders.sort_unstable();
        let mut seen = vec![];
        loop {
            let after = seen.last().copied().unwrap_or_default();
            let page = town.get(&format!("/orders?limit=2&after={after}")).await.expect(200);
            let page: Vec<i64> = page.as_array().unwrap().iter().map(id).collect();
            assert!(page.len() <= 2);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, orders);
        assert_eq!(town.get("/orders?status=cancelled").await.expect(200).as_array().unwrap().len(), 1);
        assert_eq!(town.get("/items").await.expect(200)[0]["id"], tea);
        assert_eq!(town.get("/accounts").await.expect(200)[0]["id"], buyer);
        assert_eq!(town.get("/health").await.status, 204);
        town.close().await;
    }
}
