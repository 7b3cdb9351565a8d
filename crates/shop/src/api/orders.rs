//! `/orders`

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::api::request::{Body, Id, Page};
use crate::order::{self, NewOrder, Order};
use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;

pub(crate) async fn place<E: Store>(
    State(shop): State<Shop<E>>,
    Body(new): Body<NewOrder>,
) -> Result<impl IntoResponse, Problem> {
    let order = shop.place(&new).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/orders/{}", order.id))], Json(order)))
}

pub(crate) async fn cancel<E: Store>(State(shop): State<Shop<E>>, Id(id): Id) -> Result<Json<Order>, Problem> {
    Ok(Json(shop.cancel(id).await?))
}

pub(crate) async fn read<E: Store>(State(shop): State<Shop<E>>, Id(id): Id) -> Result<Json<Order>, Problem> {
    Ok(Json(order::read(shop.pool(), id).await?))
}

pub(crate) async fn list<E: Store>(State(shop): State<Shop<E>>, page: Page) -> Result<Json<Vec<Order>>, Problem> {
    let status = page.status.as_deref();
    if let Some(other) = status.filter(|status| !["open", "paid", "cancelled", "expired"].contains(status)) {
        let why = format!("`{other}` is none of open, paid, cancelled, expired");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-query", why).at("status"));
    }
    Ok(Json(order::list(shop.pool(), page.after, page.limit, status).await?))
}
