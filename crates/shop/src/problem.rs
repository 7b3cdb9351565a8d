//! Problems as clients see them: RFC 9457 documents, with the status that says whose turn it is.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::api::tag;
use crate::error::Error;

/// A problem on its way to the client.
#[derive(Clone, Debug)]
pub struct Problem {
    document: Box<Document>,
    /// After how many seconds it may be worth trying again.
    retry_after: Option<u32>,
    /// The version that there is.
    version: Option<i64>,
}

/// A problem document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// Which kind of problem: `urn:shop:out-of-stock`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status's own words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, this time.
    pub detail: String,
    /// The field that is wrong, as a path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<String>,
    /// The database's own code, where it is the database that refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
}

impl Problem {
    /// A problem without the particulars.
    pub fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        let document = Document {
            kind: format!("urn:shop:{kind}"),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            at: None,
            code: None,
        };
        Self { document: Box::new(document), retry_after: None, version: None }
    }

    /// At which field.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.document.at = Some(field.into());
        self
    }

    /// That it may be worth trying again after so many seconds.
    pub fn again_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl Problem {
    /// With the entity tag of what there is.
    fn tagged(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        let mut problem = match error {
            Error::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, "not-found", detail),
            Error::Invalid { at, why } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", why).at(at),
            Error::OutOfStock { .. } => Self::new(StatusCode::CONFLICT, "out-of-stock", detail),
            Error::Insufficient { .. } => Self::new(StatusCode::CONFLICT, "insufficient", detail),
            Error::Full { .. } => Self::new(StatusCode::CONFLICT, "full", detail),
            Error::NotOpen { .. } => Self::new(StatusCode::CONFLICT, "not-open", detail),
            Error::Changed { now, .. } => Self::new(StatusCode::PRECONDITION_FAILED, "changed", detail).tagged(now),
            Error::Unfinished(error) => {
                tracing::error!(error = with_causes(&*error), "an order of a flash sale is not written yet");
                let why =
                    "the pieces are yours, but the order is not written yet: ask again with the same Idempotency-Key";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "unfinished", why).again_after(1)
            }
            Error::Database(error) => database(&error),
        };
        problem.document.code = code;
        problem
    }
}

/// As a value that tracing tells with all its causes.
fn with_causes<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    error
}

/// What the database refused: nothing that the client did. The particulars are for the log, not for the world.
fn database(error: &rowlock::Error) -> Problem {
    let unavailable = |kind, why| Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, why);
    match error {
        rowlock::Error::Merged { source, .. } => return database(source),
        rowlock::Error::RequestReused { .. } => {
            let why = "this key came with another item or quantity before; nothing was done";
            return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", why).at("idempotency-key");
        }
        rowlock::Error::Closed { .. } => {
            return unavailable("stopping", "the shop is being stopped; nothing was done").again_after(5);
        }
        error if error.is_turned_away() => {
            let why = "too many are waiting for the same items; nothing was done";
            return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-waiting", why).again_after(1);
        }
        rowlock::Error::NoConnection { .. } | rowlock::Error::Database(sqlx::Error::PoolTimedOut) => {
            return unavailable("overloaded", "all database connections are taken; nothing was done").again_after(1);
        }
        error if error.is_busy() => return busy(),
        rowlock::Error::Database(sqlx::Error::PoolClosed) => {
            return unavailable("stopping", "the shop is being stopped; nothing was done").again_after(5);
        }
        _ => tracing::error!(error = with_causes(error), "the database refused"),
    }
    match error {
        rowlock::Error::Exhausted { .. } | rowlock::Error::Database(sqlx::Error::Database(_)) => {
            unavailable("refused", "the database refused; nothing was done").again_after(1)
        }
        rowlock::Error::CommitUnknown { .. } | rowlock::Error::Database(_) => {
            let why = "the database did not answer; look whether it was done before you ask again";
            unavailable("unknown", why)
        }
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", "the shop made a mistake; nothing was done"),
    }
}

fn busy() -> Problem {
    let why = "someone else is at the same order, items or accounts; nothing was done";
    Problem::new(StatusCode::CONFLICT, "busy", why).again_after(1)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.document.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.document)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(version) = self.version {
            headers.insert(header::ETAG, tag::of(version));
        }
        response
    }
}
