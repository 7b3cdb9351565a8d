//! `/items` and `/deliveries`

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::api::request::{Body, Id, Page};
use crate::inventory::{self, Delivery, Item, NewItem};
use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;

pub(crate) async fn create<E: Store>(
    State(shop): State<Shop<E>>,
    Body(new): Body<NewItem>,
) -> Result<impl IntoResponse, Problem> {
    let item = inventory::create(shop.pool(), new).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/items/{}", item.id))], Json(item)))
}

pub(crate) async fn restock<E: Store>(
    State(shop): State<Shop<E>>,
    Body(delivery): Body<Delivery>,
) -> Result<StatusCode, Problem> {
    shop.restock(&delivery).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn read<E: Store>(State(shop): State<Shop<E>>, Id(id): Id) -> Result<Json<Item>, Problem> {
    Ok(Json(inventory::read(shop.pool(), id).await?))
}

pub(crate) async fn list<E: Store>(State(shop): State<Shop<E>>, page: Page) -> Result<Json<Vec<Item>>, Problem> {
    page.without_status()?;
    Ok(Json(inventory::list(shop.pool(), page.after, page.limit).await?))
}
