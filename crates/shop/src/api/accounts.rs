//! `/accounts` and `/transfers`

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::account::{self, Account, NewAccount, NewTransfer};
use crate::api::request::{Body, Id, Page};
use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;

pub(crate) async fn create<E: Store>(
    State(shop): State<Shop<E>>,
    Body(new): Body<NewAccount>,
) -> Result<impl IntoResponse, Problem> {
    let account = account::create(shop.pool(), new).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/accounts/{}", account.id))], Json(account)))
}

pub(crate) async fn transfer<E: Store>(
    State(shop): State<Shop<E>>,
    Body(new): Body<NewTransfer>,
) -> Result<impl IntoResponse, Problem> {
    Ok((StatusCode::CREATED, Json(shop.transfer(&new).await?)))
}

pub(crate) async fn read<E: Store>(State(shop): State<Shop<E>>, Id(id): Id) -> Result<Json<Account>, Problem> {
    Ok(Json(account::read(shop.pool(), id).await?))
}

pub(crate) async fn list<E: Store>(State(shop): State<Shop<E>>, page: Page) -> Result<Json<Vec<Account>>, Problem> {
    page.without_status()?;
    Ok(Json(account::list(shop.pool(), page.after, page.limit).await?))
}
