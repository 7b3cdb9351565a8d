//! A client of the shop's API, as the load uses it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use reqwest::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::flash::NewFlashOrder;
use crate::invariant;
use crate::load::tally::{End, Kind, Tally};
use crate::order::{Order, now};
use crate::payment::Receipt;
use crate::problem::Document;
use crate::stats::Stats;
use crate::webhook::Signer;

/// Longer than anything that the shop may take to answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Speaks to one shop. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: Arc<str>,
    signer: Arc<Signer>,
}

impl Client {
    /// For the shop at a URL, with the secret of its webhooks.
    pub fn new(url: &str, signer: Arc<Signer>) -> Result<Self> {
        let http = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
        Ok(Self { http, url: url.trim_end_matches('/').into(), signer })
    }

    /// What the shop has counted.
    pub async fn stats(&self) -> Result<Stats> {
        self.get("/stats").await
    }

    /// What the shop finds when it checks itself.
    pub async fn invariants(&self) -> Result<invariant::Report> {
        self.get("/invariants").await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let response = self.http.get(format!("{}{path}", self.url)).send().await?;
        read(response).await.with_context(|| format!("GET {path}"))
    }

    /// Makes something that the load needs; a failure ends the load.
    pub(crate) async fn make<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let response = self.http.post(format!("{}{path}", self.url)).json(body).send().await?;
        read(response).await.with_context(|| format!("POST {path}"))
    }

    /// Sends a request of the load and counts what became of it; the answer, if it was done.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        tally: &mut Tally,
        kind: Kind,
        path: &str,
        body: &impl Serialize,
    ) -> Option<T> {
        let request = self.http.post(format!("{}{path}", self.url)).json(body);
        self.send(tally, kind, request).await.1
    }

    /// Buys at a flash sale, under an idempotency key.
    pub(crate) async fn buy(
        &self,
        tally: &mut Tally,
        item: i64,
        key: &str,
        new: &NewFlashOrder,
    ) -> (End, Option<Order>) {
        let request = self.http.post(format!("{}/flash-sales/{item}/orders", self.url));
        self.send(tally, Kind::Flash, request.header("idempotency-key", key).json(new)).await
    }

    /// Reads something back.
    pub(crate) async fn read(&self, tally: &mut Tally, path: &str) {
        let request = self.http.get(format!("{}{path}", self.url));
        self.send::<serde_json::Value>(tally, Kind::Read, request).await;
    }

    /// Delivers an event.
    pub(crate) async fn deliver(&self, tally: &mut Tally, event: &str, body: &[u8]) -> (End, Option<Receipt>) {
        let timestamp = now() / 1000;
        let Ok(signature) = self.signer.sign(event, timestamp, body) else {
            return (End::Strange("the event cannot be signed".to_owned()), None);
        };
        let request = self
            .http
            .post(format!("{}/webhooks/payments", self.url))
            .header("content-type", "application/json")
            .header("webhook-id", event)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body.to_vec());
        self.send(tally, Kind::Event, request).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        tally: &mut Tally,
        kind: Kind,
        request: reqwest::RequestBuilder,
    ) -> (End, Option<T>) {
        let started = Instant::now();
        let answer = request.send().await;
        let (end, body) = match answer {
            // Without the URL, so that what is alike is counted together.
            Err(error) => (End::Strange(format!("no answer: {}", chain(&error.without_url()))), None),
            Ok(answer) => end_of(answer).await,
        };
        tally.add(kind, &end, started.elapsed());
        (end, body)
    }
}

async fn end_of<T: DeserializeOwned>(answer: Response) -> (End, Option<T>) {
    let status = answer.status();
    if status == StatusCode::NO_CONTENT {
        return (End::Done, serde_json::from_value(serde_json::Value::Null).ok());
    }
    if status.is_success() {
        return match answer.json().await {
            Ok(body) => (End::Done, Some(body)),
            Err(error) => (End::Strange(format!("{status} that cannot be read: {error:#}")), None),
        };
    }
    let again = answer.headers().contains_key("retry-after");
    let problem: Document = match answer.json().await {
        Ok(problem) => problem,
        Err(error) => return (End::Strange(format!("{status} without a problem document: {error:#}")), None),
    };
    let end = match (problem.code, status) {
        (Some(code), _) => End::Refused(code),
        (None, StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) if again => {
            End::Busy
        }
        (None, StatusCode::CONFLICT) => End::Declined,
        _ => End::Strange(format!("{status}: {}", problem.detail)),
    };
    (end, None)
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T> {
    let status = response.status();
    let body = response.bytes().await?;
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(serde_json::from_slice(&body)?)
}
