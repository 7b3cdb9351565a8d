//! What requests carry, read strictly: a mistake is told with its place, never guessed around.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::MAX_BODY;
use crate::flash::MAX_KEY;
use crate::problem::Problem;

/// The most entries that one page of a list has.
pub(crate) const MAX_PAGE: i64 = 100;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let bytes = Raw::from_request(request, state).await?.0;
        read(&bytes).map(Self)
    }
}

/// The bytes of a body.
pub(crate) struct Raw(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Bytes::from_request(request, state).await.map(Self).map_err(|rejection| match rejection {
            BytesRejection::FailedToBufferBody(failure) if failure.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let why = format!("the body is larger than {MAX_BODY} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", why)
            }
            other => Problem::new(StatusCode::BAD_REQUEST, "unreadable", other.body_text()),
        })
    }
}

/// Whether the body says that it is JSON.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(header::CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    let media = said.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let why = format!("content-type is `{said}`, `application/json` is taken");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", why))
}

/// Reads JSON: 400 when it is none, 422 when it says something that cannot be.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    // serde takes `[1, 2]` for an object with two fields; a client that sends it means something else.
    if matches!(bytes.iter().find(|byte| !byte.is_ascii_whitespace()), Some(b'[')) {
        let why = "an array came, an object is taken";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", why));
    }
    let value = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let at = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", inner.to_string());
            // A lone dot is the whole body.
            if at == "." { problem } else { problem.at(at) }
        } else {
            not_json(&inner)
        }
    })?;
    from.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "not-json", format!("the body is not JSON: {error}"))
}

/// The `{id}` of a path.
pub(crate) struct Id(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |why: String| Problem::new(StatusCode::BAD_REQUEST, "bad-id", why).at("id");
        let Path(text) =
            Path::<String>::from_request_parts(parts, state).await.map_err(|error| refused(error.body_text()))?;
        match text.parse() {
            Ok(id) if id > 0 => Ok(Self(id)),
            _ => Err(refused(format!("`{text}` is not an id: a whole number from 1 to {}", i64::MAX))),
        }
    }
}

/// The `Idempotency-Key`: names a request, so that one that comes again is answered and not done again. Required: who cannot
/// repeat a request cannot tell, after a lost answer, whether he has bought.
/// (draft-ietf-httpapi-idempotency-key-header; any visible characters are taken, in quotes or not.)
pub(crate) struct IdempotencyKey(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let refused = |why: String| Problem::new(StatusCode::BAD_REQUEST, "idempotency-key", why).at("idempotency-key");
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(refused("one `Idempotency-Key` is needed: a new one for each order, a UUID say".to_owned()));
        };
        match value.to_str() {
            Ok(key) if (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Self(key.to_owned()))
            }
            _ => Err(refused(format!("from 1 to {MAX_KEY} visible ASCII characters are taken, without blanks"))),
        }
    }
}

/// Which page of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// Only what has a greater id.
    #[serde(default)]
    pub(crate) after: i64,
    /// At most so many.
    #[serde(default = "most")]
    pub(crate) limit: i64,
    /// Only orders in this state.
    pub(crate) status: Option<String>,
}

fn most() -> i64 {
    MAX_PAGE
}

impl Page {
    /// For lists that know no states.
    pub(crate) fn without_status(&self) -> Result<(), Problem> {
        match self.status {
            None => Ok(()),
            Some(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "bad-query", "only orders have one").at("status")),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |why: String| Problem::new(StatusCode::BAD_REQUEST, "bad-query", why);
        let Query(page) =
            Query::<Self>::from_request_parts(parts, state).await.map_err(|error| refused(error.body_text()))?;
        if !(1..=MAX_PAGE).contains(&page.limit) {
            return Err(refused(format!("{} is not from 1 to {MAX_PAGE}", page.limit)).at("limit"));
        }
        Ok(page)
    }
}
