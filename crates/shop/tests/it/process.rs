//! The shop as a process: what it says, how it ends, and what is left when it is killed.

use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;

use rowlock_testing::TestDb;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A shop in a process of its own; killed when it is dropped.
struct Process {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    url: String,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
    command.args(arguments).env_clear().stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Where load makes its own database.
    command.envs(std::env::var_os("TMPDIR").map(|dir| ("TMPDIR", dir)));
    command
}

impl Process {
    async fn start(arguments: &[&str]) -> Self {
        let mut child = command(&[&["--addr", "127.0.0.1:0"], arguments].concat()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(line) = out.next_line().await.unwrap() else {
            let mut words = String::new();
            child.stderr.take().unwrap().read_to_string(&mut words).await.unwrap();
            panic!("the shop did not start: {words}");
        };
        let url = line.strip_prefix("shop listens on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, out, url }
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    async fn end(mut self, signal: &str) -> (ExitStatus, Vec<String>) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
        let mut lines = vec![];
        while let Some(line) = self.out.next_line().await.unwrap() {
            lines.push(line);
        }
        (self.child.wait().await.unwrap(), lines)
    }

    /// What it finds when it checks itself.
    async fn assert_sound(&self, http: &reqwest::Client) {
        let report = http.get(format!("{}/invariants", self.url)).send().await.unwrap().text().await.unwrap();
        let report: shop::invariant::Report = serde_json::from_str(&report).unwrap();
        assert!(report.holds(), "{:#?}", report.broken().collect::<Vec<_>>());
    }
}

async fn make(http: &reqwest::Client, url: &str, path: &str, body: serde_json::Value) -> Option<i64> {
    let answer = http.post(format!("{url}{path}")).json(&body).send().await.ok()?;
    let made: serde_json::Value = answer.json().await.ok()?;
    made["id"].as_i64()
}

rowlock_testing::engines! {
    async fn what_was_answered_survives_a_kill(db: TestDb) {
        let arguments = ["--database", db.url(), "--webhook-secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"];
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let process = Process::start(&arguments).await;
        let url = process.url.clone();
        let account = make(&http, &url, "/accounts", json!({"balance": 1_000_000})).await.unwrap();
        let mut items = vec![];
        for _ in 0..4 {
            let item = json!({"name": "tea", "seller": account, "price": 5, "stock": 100_000});
            items.push(make(&http, &url, "/items", item).await.unwrap());
        }
        let answered = Mutex::new(vec![]);
        let enough = tokio::sync::Notify::new();
        let client = async |n: usize| {
            loop {
                let lines = json!([{"item": items[n % 4], "quantity": 1}, {"item": items[(n + 1) % 4], "quantity": 2}]);
                let order = json!({"account": account, "lines": lines, "pay": n.is_multiple_of(2)});
                let Some(order) = make(&http, &url, "/orders", order).await else { return };
                let mut answered = answered.lock().unwrap();
                answered.push(order);
                if answered.len() >= 60 {
                    enough.notify_one();
                }
            }
        };
        let killer = async {
            enough.notified().await;
            process.kill().await;
        };
        tokio::join!(client(0), client(1), client(2), client(3), client(4), killer);

        let process = Process::start(&arguments).await;
        process.assert_sound(&http).await;
        for order in answered.into_inner().unwrap() {
            let answer = http.get(format!("{}/orders/{order}", process.url)).send().await.unwrap();
            assert_eq!(answer.status(), 200, "order {order} was answered and is gone");
        }
        let (status, lines) = process.end("-TERM").await;
        assert!(status.success(), "{status}: {lines:?}");
        assert!(lines.last().unwrap().contains("shop stops"), "{lines:?}");
    }
}

rowlock_testing::engines! {
    /// Killed in the middle of a flash sale: whoever had an answer gets it again, and whoever had none gets one; none of them
    /// has bought twice.
    async fn a_flash_sale_survives_a_kill(db: TestDb) {
        let arguments = ["--database", db.url(), "--webhook-secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"];
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let process = Process::start(&arguments).await;
        let url = process.url.clone();
        let account = make(&http, &url, "/accounts", json!({"balance": 1_000})).await.unwrap();
        let item = json!({"name": "tea", "seller": account, "price": 5, "stock": 100_000});
        let item = make(&http, &url, "/items", item).await.unwrap();
        let buy = async |url: &str, key: &str| -> Option<i64> {
            let request = http.post(format!("{url}/flash-sales/{item}/orders")).header("idempotency-key", key);
            let answer = request.json(&json!({"account": account, "quantity": 1})).send().await.ok()?;
            let status = answer.status();
            let made: serde_json::Value = answer.json().await.ok()?;
            assert_eq!(status, 201, "{made:#}");
            made["id"].as_i64()
        };
        let asked = Mutex::new(vec![]);
        let enough = tokio::sync::Notify::new();
        let client = async |n: usize| {
            for turn in 0.. {
                let key = format!("{n}-{turn}");
                let order = buy(&url, &key).await;
                let mut asked = asked.lock().unwrap();
                asked.push((key, order));
                if asked.len() >= 200 {
                    enough.notify_one();
                }
                if order.is_none() {
                    return;
                }
            }
        };
        let killer = async {
            enough.notified().await;
            process.kill().await;
        };
        tokio::join!(futures_util::future::join_all((0..32).map(client)), killer);

        // Before anyone asks again.
        let settled = command(&["--database", db.url(), "batch", "settle"]).output().await.unwrap();
        let said = String::from_utf8(settled.stdout).unwrap();
        assert!(settled.status.success() && said.ends_with(" orders made\n"), "{said}");
        let process = Process::start(&arguments).await;
        process.assert_sound(&http).await;
        let asked = asked.into_inner().unwrap();
        assert!(asked.iter().any(|(_, order)| order.is_none()), "nobody was at it when it was killed");
        let mut orders = std::collections::BTreeSet::new();
        for (key, order) in &asked {
            let again = buy(&process.url, key).await;
            assert!(again.is_some() && (order.is_none() || *order == again), "{key}: {order:?}, then {again:?}");
            assert!(orders.insert(again), "{key}: an order of two keys");
        }
        process.assert_sound(&http).await;
        assert_eq!(db.value("select count(*) from orders").await, asked.len().to_string());
        assert_eq!(db.value("select stock from inventories").await, (100_000 - asked.len()).to_string());
        process.end("-TERM").await;
    }
}

#[tokio::test]
async fn the_first_start_makes_everything_and_the_next_keeps_it() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("deep/shop-data");
    let data = data.to_str().unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let process = Process::start(&["--data", data]).await;
    let account = make(&http, &process.url, "/accounts", json!({"balance": 7})).await.unwrap();
    let secret = std::fs::read_to_string(format!("{data}/webhook-secret")).unwrap();
    let (status, lines) = process.end("-INT").await;
    assert!(status.success(), "{status}: {lines:?}");
    let said = lines.join("\n");
    assert!(said.contains("rowlock") && said.contains("Sqlite") && said.contains(data), "{said}");

    let process = Process::start(&["--data", data]).await;
    let answer = http.get(format!("{}/accounts/{account}", process.url)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(std::fs::read_to_string(format!("{data}/webhook-secret")).unwrap(), secret);
    process.end("-TERM").await;
    let batch = command(&["--data", data, "batch", "expire"]).output().await.unwrap();
    assert_eq!(String::from_utf8(batch.stdout).unwrap(), "0 orders expired\n");
}

#[tokio::test]
async fn load_alone_runs_on_a_fresh_database_and_ends_with_its_verdict() {
    let output = command(&["load", "--requests", "300", "--clients", "6"]).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().last(), Some("invariants: ok"), "{said}");
    assert!(output.stderr.is_empty(), "no bar without a terminal: {}", String::from_utf8_lossy(&output.stderr));
    let place = said.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert!(!std::path::Path::new(place).exists(), "{place} is left behind");
}

#[tokio::test]
async fn strategies_are_compared_and_each_adds_up() {
    let all = [
        "load",
        "--strategy",
        "naive,locked,conditional",
        "--strategy",
        "merged",
        "--requests",
        "60",
        "--clients",
        "6",
    ];
    let output = command(&all).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<&str> = said.lines().filter(|line| line.split_whitespace().count() == 8).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().next()).collect();
    assert_eq!(names[names.len() - 4..], ["naive", "locked", "conditional", "merged"], "{said}");
    assert_eq!(said.lines().last(), Some("invariants: ok"), "{said}");
    let unknown = command(&["load", "--strategy", "lucky"]).output().await.unwrap();
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(said.contains("'lucky'") && said.contains("naive, locked, conditional, merged"), "{said}");
    let elsewhere = command(&["load", "--strategy", "merged", "--url", "http://127.0.0.1:1"]).output().await.unwrap();
    assert!(!elsewhere.status.success() && String::from_utf8(elsewhere.stderr).unwrap().contains("--url"));
}

#[tokio::test]
async fn a_wrong_flag_or_address_is_told_in_one_line() {
    for (arguments, says) in [
        (&["--database", "oracle://x"] as &[&str], "`oracle` is no engine"),
        (&["--database", "nothing"], "is not a URL"),
        (&["--webhook-secret", "%%%"], "base64"),
        (&["load", "--database", "postgres://nobody@127.0.0.1:1/x"], "cannot make a database"),
        (&["load", "--strategy", "merged", "--naive"], "`--strategy naive,merged`"),
        (&["load", "--url", "http://127.0.0.1:1", "--webhook-secret", "AAAA"], "no shop answers"),
    ] {
        let output = command(arguments).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(says) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
