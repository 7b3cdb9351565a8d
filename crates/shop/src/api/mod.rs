//! The HTTP API: one file a noun, one handler an operation. Handlers check the form; the shop decides the rest.

mod accounts;
mod admin;
mod flash;
mod items;
mod orders;
mod request;
pub(crate) mod tag;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::extract::FromRef;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{get, post};

use crate::problem::Problem;
use crate::shop::Shop;
use crate::store::Store;
use crate::webhook::Signer;

/// The largest body that is read, in bytes.
pub const MAX_BODY: usize = 64 * 1024;

struct App<E: Store> {
    shop: Shop<E>,
    signer: Arc<Signer>,
}

impl<E: Store> Clone for App<E> {
    fn clone(&self) -> Self {
        Self { shop: self.shop.clone(), signer: self.signer.clone() }
    }
}

impl<E: Store> FromRef<App<E>> for Shop<E> {
    fn from_ref(app: &App<E>) -> Self {
        app.shop.clone()
    }
}

impl<E: Store> FromRef<App<E>> for Arc<Signer> {
    fn from_ref(app: &App<E>) -> Self {
        app.signer.clone()
    }
}

/// All routes.
pub fn router<E: Store>(shop: Shop<E>, signer: Arc<Signer>) -> Router {
    Router::new()
        .route("/orders", post(orders::place::<E>).get(orders::list::<E>))
        .route("/orders/{id}", get(orders::read::<E>).patch(orders::edit::<E>))
        .route("/orders/{id}/cancel", post(orders::cancel::<E>))
        .route("/flash-sales/{id}/orders", post(flash::buy::<E>))
        .route("/items", post(items::create::<E>).get(items::list::<E>))
        .route("/items/{id}", get(items::read::<E>))
        .route("/deliveries", post(items::restock::<E>))
        .route("/accounts", post(accounts::create::<E>).get(accounts::list::<E>))
        .route("/accounts/{id}", get(accounts::read::<E>))
        .route("/transfers", post(accounts::transfer::<E>))
        .route("/webhooks/payments", post(webhooks::receive::<E>))
        .route("/batch/expire", post(admin::expire::<E>))
        .route("/invariants", get(admin::invariants::<E>))
        .route("/stats", get(admin::stats::<E>))
        .route("/health", get(admin::health::<E>))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(App { shop, signer })
}

async fn no_such_path(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no-such-path", format!("there is nothing at {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let why = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no-such-method", why)
}
