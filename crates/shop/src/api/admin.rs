//! `/batch/expire`, `/invariants`, `/stats` and `/health`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::api::request::Body;
use crate::error::Error;
use crate::invariant;
use crate::order::now;
use crate::problem::Problem;
use crate::shop::Shop;
use crate::sql::query;
use crate::stats::Stats;
use crate::store::{self, Store};

/// The most orders that one batch takes: one transaction holds them all.
pub(crate) const MAX_BATCH: i64 = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expire {
    older_than_ms: i64,
    limit: i64,
}

#[derive(Serialize)]
pub(crate) struct Expired {
    expired: Vec<i64>,
}

pub(crate) async fn expire<E: Store>(
    State(shop): State<Shop<E>>,
    Body(asked): Body<Expire>,
) -> Result<Json<Expired>, Problem> {
    if !(1..=MAX_BATCH).contains(&asked.limit) {
        return Err(Error::invalid("limit", format!("{} is not from 1 to {MAX_BATCH}", asked.limit)).into());
    }
    if asked.older_than_ms < 0 {
        return Err(Error::invalid("older_than_ms", "a time to come is not an age").into());
    }
    let before = now().saturating_sub(asked.older_than_ms);
    Ok(Json(Expired { expired: shop.expire(before, asked.limit).await? }))
}

pub(crate) async fn invariants<E: Store>(State(shop): State<Shop<E>>) -> Result<Json<invariant::Report>, Problem> {
    Ok(Json(shop.check().await?))
}

pub(crate) async fn stats<E: Store>(State(shop): State<Shop<E>>) -> Json<Stats> {
    Json(shop.stats())
}

/// Whether the database answers.
pub(crate) async fn health<E: Store>(State(shop): State<Shop<E>>) -> Result<StatusCode, Problem> {
    let mut conn = shop.pool().acquire().await.map_err(Error::from)?;
    let asked = query("select cast(1 as {int})");
    store::row::<E, (i64,)>(&mut conn, asked).await.map_err(Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}
