//! A shop on a test's own database, and a client that sees all of an answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use rowlock_testing::TestDb;
use serde_json::{Value, json};
use shop::serve::{Running, new_secret};
use shop::settings::Settings;

/// The settings of a shop on a test's database, on a free port.
pub(crate) fn settings(db: &TestDb, naive: bool) -> Settings {
    Settings {
        addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        database: Some(db.url().to_owned()),
        data: PathBuf::from("not-used: the database and the secret are given"),
        webhook_secret: Some(new_secret()),
        connections: 12,
        lock_wait_ms: 20_000,
        naive,
    }
}

/// A running shop.
pub(crate) struct Town {
    pub(crate) running: Running,
    http: reqwest::Client,
}

/// All of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The body, if the status is what it should be.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        self.body
    }
}

impl Town {
    pub(crate) async fn open(db: &TestDb) -> Self {
        Self::with(settings(db, false)).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let running = Running::start(&settings).await.unwrap_or_else(|error| panic!("{error:#}"));
        Self { running, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.running.addr())
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.url())).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let bytes = answer.bytes().await.unwrap();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Answer { status, headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], vec![]).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, path, &json, body.to_string().into_bytes()).await
    }

    pub(crate) async fn account(&self, balance: i64) -> i64 {
        id(&self.post("/accounts", json!({ "balance": balance })).await.expect(201))
    }

    pub(crate) async fn balance(&self, account: i64) -> i64 {
        self.get(&format!("/accounts/{account}")).await.expect(200)["balance"].as_i64().unwrap()
    }

    pub(crate) async fn item(&self, seller: i64, price: i64, stock: i64) -> i64 {
        let item = json!({"name": "tea", "seller": seller, "price": price, "stock": stock});
        id(&self.post("/items", item).await.expect(201))
    }

    /// `[delivered, stock, reserved, sold]`
    pub(crate) async fn stock(&self, item: i64) -> [i64; 4] {
        let item = self.get(&format!("/items/{item}")).await.expect(200);
        ["delivered", "stock", "reserved", "sold"].map(|field| item[field].as_i64().unwrap())
    }

    pub(crate) async fn place(&self, account: i64, lines: &[(i64, i64)], pay: bool) -> Answer {
        let lines: Vec<Value> = lines.iter().map(|(item, n)| json!({"item": item, "quantity": n})).collect();
        self.post("/orders", json!({"account": account, "lines": lines, "pay": pay})).await
    }

    pub(crate) async fn order(&self, account: i64, lines: &[(i64, i64)]) -> i64 {
        id(&self.place(account, lines, false).await.expect(201))
    }

    pub(crate) async fn status(&self, order: i64) -> String {
        self.get(&format!("/orders/{order}")).await.expect(200)["status"].as_str().unwrap().to_owned()
    }

    /// Delivers an event as signed at a moment, in seconds from now.
    pub(crate) async fn deliver(&self, event: &str, at: i64, body: &Value) -> Answer {
        let body = body.to_string();
        let timestamp = shop::order::now() / 1000 + at;
        let signature = self.running.signer().sign(event, timestamp, body.as_bytes()).unwrap();
        let timestamp = timestamp.to_string();
        let headers = [
            ("content-type", "application/json"),
            ("webhook-id", event),
            ("webhook-timestamp", timestamp.as_str()),
            ("webhook-signature", signature.as_str()),
        ];
        self.send(Method::POST, "/webhooks/payments", &headers, body.into_bytes()).await
    }

    pub(crate) async fn paid(&self, event: &str, order: i64, amount: i64) -> Value {
        let body = json!({"type": "payment.succeeded", "data": {"order": order, "amount": amount}});
        self.deliver(event, 0, &body).await.expect(200)
    }

    /// Everything must add up at the end of every test.
    pub(crate) async fn close(self) {
        let report = self.running.shop().check().await.unwrap();
        assert!(report.holds(), "{:#?}", report.broken().collect::<Vec<_>>());
        self.running.stop().await.unwrap();
    }
}

pub(crate) fn id(made: &Value) -> i64 {
    made["id"].as_i64().unwrap()
}
