//! `/orders`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::request::{Body, Id, Page};
use crate::api::tag::{self, IfMatch};
use crate::error::Error;
use crate::order::{self, NewOrder, Order, Revision};
use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;

/// An order with its entity tag.
pub(crate) type Tagged = ([(HeaderName, HeaderValue); 1], Json<Order>);

pub(crate) fn tagged(order: Order) -> Tagged {
    ([(header::ETAG, tag::of(order.version))], Json(order))
}

pub(crate) async fn place<E: Store>(
    State(shop): State<Shop<E>>,
    Body(new): Body<NewOrder>,
) -> Result<impl IntoResponse, Problem> {
    let order = shop.place(&new).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/orders/{}", order.id))], tagged(order)))
}

pub(crate) async fn cancel<E: Store>(State(shop): State<Shop<E>>, Id(id): Id) -> Result<Tagged, Problem> {
    Ok(tagged(shop.cancel(id).await?))
}

pub(crate) async fn edit<E: Store>(
    State(shop): State<Shop<E>>,
    Id(id): Id,
    IfMatch(versions): IfMatch,
    Body(revision): Body<Revision>,
) -> Result<Tagged, Problem> {
    // One of several, whichever there is; none of the shop's tags match what there is as little as an old one.
    let mut read = versions.first().copied().unwrap_or(-1);
    for _ in 0..=versions.len() {
        match shop.edit(id, read, &revision).await {
            Err(Error::Changed { now, .. }) if now != read && versions.contains(&now) => read = now,
            result => return Ok(tagged(result?)),
        }
    }
    Ok(tagged(shop.edit(id, read, &revision).await?))
}

pub(crate) async fn read<E: Store>(
    State(shop): State<Shop<E>>,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let order = order::read(shop.pool(), id).await?;
    if tag::has(&headers, order.version)? {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag::of(order.version))]).into_response());
    }
    Ok(tagged(order).into_response())
}

pub(crate) async fn list<E: Store>(State(shop): State<Shop<E>>, page: Page) -> Result<Json<Vec<Order>>, Problem> {
    let status = page.status.as_deref();
    if let Some(other) = status.filter(|status| !["open", "paid", "cancelled", "expired"].contains(status)) {
        let why = format!("`{other}` is none of open, paid, cancelled, expired");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-query", why).at("status"));
    }
    Ok(Json(order::list(shop.pool(), page.after, page.limit, status).await?))
}
