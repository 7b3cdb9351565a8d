//! Webhooks: whether a delivery is from whom it says, and what it tells.
//!
//! Deliveries follow the Standard Webhooks specification: the headers `webhook-id`, `webhook-timestamp` and
//! `webhook-signature`, and a body with a `type` and its `data`.

use axum::http::HeaderMap;
use serde::Deserialize;
use standardwebhooks::{Webhook, WebhookError};

use crate::error::{Error, Result};
use crate::payment::Payment;

/// The type of the event that the shop acts upon.
pub const PAYMENT: &str = "payment.succeeded";

/// What a delivery tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// An order was paid.
    Payment(Payment),
    /// Something that the shop has no use for: it is noted and acknowledged, so that nobody sends it for ever.
    Other {
        /// The event's id.
        event: String,
        /// Its type.
        kind: String,
    },
}

/// Knows the secret that deliveries are signed with.
pub struct Signer(Webhook);

/// Why a delivery is not believed.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// A header is missing or cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The signature is not of this body under this secret, or it is too old or from the future.
    #[error("{0}")]
    Unsigned(String),
}

impl Signer {
    /// From a secret as payment providers print it: base64, with `whsec_` before it or not.
    pub fn new(secret: &str) -> Result<Self, WebhookError> {
        Webhook::new(secret).map(Self)
    }

    /// The signature of a delivery.
    pub fn sign(&self, event: &str, timestamp: i64, body: &[u8]) -> Result<String, WebhookError> {
        self.0.sign(event, timestamp, body)
    }

    /// The event's id, if the delivery is genuine.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<String, Distrust> {
        let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        if id.is_empty() || id.len() > 200 || !id.bytes().all(plain) {
            let why = "webhook-id: from 1 to 200 letters, digits and `_-.:` are taken";
            return Err(Distrust::Unreadable(why.to_owned()));
        }
        self.0.verify(body, headers).map_err(|error| match error {
            WebhookError::MissingHeader(name) => Distrust::Unreadable(format!("webhook-{name}: is missing")),
            WebhookError::InvalidHeader(name) => Distrust::Unreadable(format!("webhook-{name}: is not text")),
            WebhookError::InvalidTimestamp => {
                Distrust::Unreadable("webhook-timestamp: is not a number of seconds".to_owned())
            }
            WebhookError::InvalidPayload => Distrust::Unreadable("the body is not UTF-8".to_owned()),
            WebhookError::TimestampTooOldError => {
                Distrust::Unsigned("webhook-timestamp: is more than five minutes old".to_owned())
            }
            WebhookError::FutureTimestampError => {
                Distrust::Unsigned("webhook-timestamp: is more than five minutes ahead".to_owned())
            }
            WebhookError::InvalidSignature | WebhookError::InvalidSecret(_) => {
                Distrust::Unsigned("webhook-signature: is not of this id, timestamp and body".to_owned())
            }
        })?;
        Ok(id.to_owned())
    }
}

#[derive(Deserialize)]
pub(crate) struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: serde_json::Value,
}

#[derive(Deserialize)]
struct Paid {
    order: i64,
    amount: i64,
}

impl Event {
    /// Reads the body of a genuine delivery. Fields that the shop does not know are the sender's business.
    pub(crate) fn read(event: String, envelope: Envelope) -> Result<Self> {
        let Envelope { kind, data } = envelope;
        if kind.is_empty() || kind.len() > 200 || kind.contains('\0') {
            return Err(Error::invalid("type", "from 1 to 200 bytes without NUL are taken"));
        }
        if kind != PAYMENT {
            return Ok(Self::Other { event, kind });
        }
        let paid: Paid = serde_path_to_error::deserialize(data).map_err(|error| {
            let path = error.path().to_string();
            let at = if path == "." { "data".to_owned() } else { format!("data.{path}") };
            Error::invalid(at, error.into_inner().to_string())
        })?;
        Ok(Self::Payment(Payment { event, kind, order: paid.order, amount: paid.amount }))
    }
}
