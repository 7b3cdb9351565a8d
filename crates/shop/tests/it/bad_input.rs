//! Whatever a client sends, it is told what is wrong with it, and it is never the server's fault.

use reqwest::Method;
use rowlock_testing::TestDb;
use serde_json::{Value, json};

use crate::support::Town;

const JSON: &str = "application/json";

/// What is sent, and what must come back: the status, the kind of problem, the field and a part of the words.
struct Case {
    method: Method,
    path: String,
    content: &'static str,
    body: String,
    status: u16,
    kind: &'static str,
    at: Option<&'static str>,
    says: &'static str,
}

fn case(
    path: &str,
    body: impl ToString,
    status: u16,
    kind: &'static str,
    at: &'static str,
    says: &'static str,
) -> Case {
    Case {
        method: Method::POST,
        path: path.to_owned(),
        content: JSON,
        body: body.to_string(),
        status,
        kind,
        at: Some(at).filter(|at| !at.is_empty()),
        says,
    }
}

fn get(path: &str, status: u16, kind: &'static str, at: &'static str, says: &'static str) -> Case {
    Case { method: Method::GET, body: String::new(), ..case(path, "", status, kind, at, says) }
}

fn cases(account: i64, item: i64) -> Vec<Case> {
    let order = |lines: Value| json!({"account": account, "lines": lines});
    let one = |quantity: Value| order(json!([{"item": item, "quantity": quantity}]));
    let cancel = |id: &str| format!("/orders/{id}/cancel");
    vec![
        // The form of requests.
        case("/orders", "{\"account\":", 400, "not-json", "", "EOF"),
        case("/orders", "", 400, "not-json", "", "EOF"),
        case("/batch/expire", r#"{"older_than_ms": 0, "limit": 1} {}"#, 400, "not-json", "", "trailing"),
        case("/orders", "\u{feff}{}", 400, "not-json", "", "expected value"),
        case("/orders", format!("\"{}\"", "x".repeat(70_000)), 413, "too-large", "", "65536"),
        Case { content: "text/plain", ..case("/orders", "{}", 415, "content-type", "", "text/plain") },
        Case { method: Method::DELETE, ..case("/orders", "", 405, "no-such-method", "", "DELETE") },
        get("/nothing", 404, "no-such-path", "", "/nothing"),
        // Orders.
        case("/orders", "{}", 422, "invalid", "", "missing field `account`"),
        case("/orders", "[1, []]", 422, "invalid", "", "an array came"),
        case("/orders", "7", 422, "invalid", "", "invalid type"),
        case(
            "/orders",
            json!({"account": account, "lines": [], "colour": 1}),
            422,
            "invalid",
            "colour",
            "unknown field",
        ),
        case("/orders", order(json!([])), 422, "invalid", "lines", "at least one"),
        case("/orders", order(json!([{"item": item, "quantity": 1, "x": 1}])), 422, "invalid", "lines[0].x", "unknown"),
        case("/orders", one(json!(0)), 422, "invalid", "lines[0].quantity", "from 1"),
        case("/orders", one(json!(-1)), 422, "invalid", "lines[0].quantity", "from 1"),
        case("/orders", one(json!(i64::MAX)), 422, "invalid", "lines[0].quantity", "from 1"),
        case("/orders", one(json!(u64::MAX)), 422, "invalid", "lines[0].quantity", "expected i64"),
        case("/orders", one(json!(1.5)), 422, "invalid", "lines[0].quantity", "expected i64"),
        case("/orders", one(json!("1")), 422, "invalid", "lines[0].quantity", "expected i64"),
        case("/orders", one(Value::Null), 422, "invalid", "lines[0].quantity", "expected i64"),
        case("/orders", order(json!([{"quantity": 1}])), 422, "invalid", "lines[0]", "missing field `item`"),
        case(
            "/orders",
            order(json!([{"item": item, "quantity": 999_999}, {"item": item, "quantity": 2}])),
            422,
            "invalid",
            "lines[1].quantity",
            "together",
        ),
        case("/orders", order(vec![json!({"item": item, "quantity": 1}); 101].into()), 422, "invalid", "lines", "101"),
        case("/orders", order(json!([{"item": 1, "quantity": 1}])), 422, "invalid", "lines", "no item 1"),
        case("/orders", order(json!([{"item": -5, "quantity": 1}])), 422, "invalid", "lines", "no item -5"),
        case(
            "/orders",
            json!({"account": 1, "lines": [{"item": item, "quantity": 1}]}),
            422,
            "invalid",
            "account",
            "no account 1",
        ),
        case("/orders", one(json!(11)), 409, "out-of-stock", "", "has 10 in stock, 11 are wanted"),
        case(&cancel("1"), "null", 404, "not-found", "", "no order 1"),
        case(&cancel("0"), "null", 400, "bad-id", "id", "`0`"),
        case(&cancel("-3"), "null", 400, "bad-id", "id", "`-3`"),
        case(&cancel("9223372036854775808"), "null", 400, "bad-id", "id", "is not an id"),
        get("/orders/x", 400, "bad-id", "id", "`x`"),
        get("/orders/1", 404, "not-found", "", "no order 1"),
        get("/orders/%00", 400, "bad-id", "id", "is not an id"),
        get("/orders/%ff", 400, "bad-id", "id", "UTF-8"),
        get("/orders?limit=0", 400, "bad-query", "limit", "from 1 to 100"),
        get("/orders?limit=101", 400, "bad-query", "limit", "from 1 to 100"),
        get("/orders?limit=x", 400, "bad-query", "", "limit"),
        get("/orders?after=99999999999999999999", 400, "bad-query", "", "after"),
        get("/orders?page=2", 400, "bad-query", "", "unknown field `page`"),
        get("/orders?status=lost", 400, "bad-query", "status", "`lost`"),
        // Items and deliveries.
        get("/items/1", 404, "not-found", "", "no item 1"),
        get("/items?status=open", 400, "bad-query", "status", "only orders"),
        case("/items", json!({"name": "", "seller": account, "price": 1}), 422, "invalid", "name", "200"),
        case("/items", json!({"name": "x".repeat(201), "seller": account, "price": 1}), 422, "invalid", "name", "200"),
        case("/items", json!({"name": "a\0b", "seller": account, "price": 1}), 422, "invalid", "name", "NUL"),
        case("/items", json!({"name": "a", "seller": 1, "price": 1}), 422, "invalid", "seller", "no account 1"),
        case("/items", json!({"name": "a", "seller": account, "price": 0}), 422, "invalid", "price", "from 1"),
        case("/items", json!({"name": "a", "seller": account, "price": i64::MAX}), 422, "invalid", "price", "from 1"),
        case(
            "/items",
            json!({"name": "a", "seller": account, "price": 1, "stock": -1}),
            422,
            "invalid",
            "stock",
            "from 0",
        ),
        case("/deliveries", json!({"lines": []}), 422, "invalid", "lines", "at least one"),
        case("/deliveries", json!({"lines": [{"item": 1, "quantity": 1}]}), 422, "invalid", "lines", "no item 1"),
        // Accounts and transfers.
        get("/accounts/1", 404, "not-found", "", "no account 1"),
        case("/accounts", json!({"balance": -1}), 422, "invalid", "balance", "from 0"),
        case("/accounts", json!({"balance": i64::MAX}), 422, "invalid", "balance", "from 0"),
        case("/accounts", json!({"balance": 1, "vip": true}), 422, "invalid", "vip", "unknown field"),
        case("/transfers", json!({"from": account, "to": account, "amount": 1}), 422, "invalid", "to", "that pays"),
        case("/transfers", json!({"from": account, "to": 1, "amount": 0}), 422, "invalid", "amount", "from 1"),
        case("/transfers", json!({"from": account, "to": 1, "amount": i64::MAX}), 422, "invalid", "amount", "from 1"),
        case("/transfers", json!({"from": account, "to": 1, "amount": 1}), 422, "invalid", "to", "no account 1"),
        case("/transfers", json!({"from": 1, "to": account, "amount": 1}), 422, "invalid", "from", "no account 1"),
        // The batch.
        case("/batch/expire", json!({"older_than_ms": 0, "limit": 0}), 422, "invalid", "limit", "from 1"),
        case("/batch/expire", json!({"older_than_ms": 0, "limit": 10_001}), 422, "invalid", "limit", "from 1"),
        case("/batch/expire", json!({"older_than_ms": -1, "limit": 1}), 422, "invalid", "older_than_ms", "to come"),
        // Webhooks; what is wrong with genuine ones stands in its own tests.
        case("/webhooks/payments", "{}", 400, "webhook-header", "", "webhook-id"),
    ]
}

rowlock_testing::engines! {
    async fn every_mistake_is_told_with_its_place(db: TestDb) {
        let town = Town::open(&db).await;
        let account = town.account(1_000).await;
        let item = town.item(account, 5, 10).await;
        for case in cases(account, item) {
            let shown: String = case.body.chars().take(200).collect();
            let what = format!("{} {} {shown}", case.method, case.path);
            let headers: &[_] = if case.method == Method::GET { &[] } else { &[("content-type", case.content)] };
            let answer = town.send(case.method, &case.path, headers, case.body.into_bytes()).await;
            assert_eq!(answer.status.as_u16(), case.status, "{what}: {:#}", answer.body);
            assert_eq!(answer.headers["content-type"], "application/problem+json", "{what}");
            assert_eq!(answer.body["type"], format!("urn:shop:{}", case.kind), "{what}: {:#}", answer.body);
            assert_eq!(answer.body["status"], case.status, "{what}");
            if case.at.is_some() {
                assert_eq!(answer.body["at"].as_str(), case.at, "{what}: {:#}", answer.body);
            }
            let detail = answer.body["detail"].as_str().unwrap();
            assert!(detail.contains(case.says), "{what}: {detail}");
        }
        assert_eq!(town.stock(item).await, [10, 10, 0, 0]);
        assert_eq!(town.balance(account).await, 1_000);
        town.close().await;
    }

    async fn limits_hold_when_they_are_reached_step_by_step(db: TestDb) {
        let town = Town::open(&db).await;
        let account = town.account(1_000).await;
        let dear = town.item(account, 1_000_000_000, 1_000_000).await;
        let full = town.item(account, 1, 1_000_000_000_000).await;
        // Each number may be; their product may not.
        let answer = town.place(account, &[(dear, 1_001)], false).await.expect(422);
        assert_eq!(answer["at"], "lines", "{answer:#}");
        let delivery = json!({"lines": [{"item": full, "quantity": 1}]});
        let answer = town.post("/deliveries", delivery).await.expect(409);
        assert_eq!(answer["type"], "urn:shop:full", "{answer:#}");
        assert_eq!(town.stock(dear).await, [1_000_000, 1_000_000, 0, 0]);
        town.close().await;
    }
}
