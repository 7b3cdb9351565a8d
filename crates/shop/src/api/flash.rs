//! `/flash-sales`

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::api::orders::tagged;
use crate::api::request::{Body, Id, IdempotencyKey};
use crate::flash::NewFlashOrder;
use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;

pub(crate) async fn buy<E: Store>(
    State(shop): State<Shop<E>>,
    Id(item): Id,
    IdempotencyKey(key): IdempotencyKey,
    Body(new): Body<NewFlashOrder>,
) -> Result<impl IntoResponse, Problem> {
    let order = shop.buy(item, &key, new).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/orders/{}", order.id))], tagged(order)))
}
