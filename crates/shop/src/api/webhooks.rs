//! `/webhooks/payments`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use crate::api::request::{Raw, check_type, read};
use crate::payment::Receipt;
use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;
use crate::webhook::{Distrust, Event, Signer};

pub(crate) async fn receive<E: Store>(
    State(shop): State<Shop<E>>,
    State(signer): State<Arc<Signer>>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Json<Receipt>, Problem> {
    let id = signer.verify(&headers, &body).map_err(|distrust| {
        let (status, kind) = match distrust {
            Distrust::Unreadable(_) => (StatusCode::BAD_REQUEST, "webhook-header"),
            Distrust::Unsigned(_) => (StatusCode::UNAUTHORIZED, "webhook-signature"),
        };
        Problem::new(status, kind, distrust.to_string())
    })?;
    check_type(&headers)?;
    let event = Event::read(id, read(&body)?)?;
    Ok(Json(shop.receive(&event).await?))
}
