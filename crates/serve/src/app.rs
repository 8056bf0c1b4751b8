//! Shared state of the handlers, the routes, and the headers of every answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use ssdlab_lab::store::{Store, StoreError};

use crate::access::{Access, Refusal};
use crate::events::Hub;
use crate::machine::Machine;
use crate::pages::{self, Problem};
use crate::runner::Runner;

/// Largest body of a request, in bytes.
const MAX_BODY_SIZE: usize = 64 * 1024;
/// Longest time in which the body of a change must arrive and be answered.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Content security policy of pages: they may load the style and the script of this server, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";
/// Content security policy of a report saved as a single file: it may run its own script.
const SAVED_PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                               script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts \
                               allow-downloads";

/// State that the handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: PathBuf,
    pub(crate) access: Access,
    pub(crate) runner: Runner,
    pub(crate) hub: Arc<Hub>,
    pub(crate) machine: Machine,
}

/// Shared state, as handlers extract it.
pub(crate) type Shared = State<Arc<App>>;

impl App {
    /// Opens the store for reading; `None` if no run was kept yet.
    pub(crate) fn store(&self) -> Result<Option<Store>, StoreError> {
        match Store::open_read_only(&self.store) {
            Err(StoreError::Missing { .. }) => Ok(None),
            other => other.map(Some),
        }
    }
}

/// Runs an action that may take a while, such as reading the store, on a thread for blocking work.
pub(crate) async fn run_blocking<T: Send + 'static>(
    action: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "this page has failed");
    tokio::task::spawn_blocking(action).await.map_err(failed)?
}

/// Adds the routes of attached drives.
#[cfg(target_os = "linux")]
fn attached_drives(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/drives", get(pages::drives::list))
        .route("/drives/{pid}", get(pages::drives::watch))
        .route("/drives/{pid}/events", get(pages::drives::events))
}

/// Adds no routes: drives can be attached on Linux only.
#[cfg(not(target_os = "linux"))]
fn attached_drives(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
}

/// Returns the routes of the whole server.
pub(crate) fn router(app: Arc<App>) -> Router {
    attached_drives(Router::new())
        .route("/", get(pages::runs::list))
        .route("/runs/{id}", get(pages::run::show).post(pages::run::annotate))
        .route("/runs/{id}/delete", post(pages::run::delete))
        .route("/runs/{id}/report.html", get(pages::run::html_file))
        .route("/runs/{id}/report.json", get(pages::run::json_file))
        .route("/compare", get(pages::compare::compare))
        .route("/trend", get(pages::compare::trend))
        .route("/experiments", get(pages::experiments::list).post(pages::experiments::start))
        .route("/experiments/{pid}", get(pages::experiments::watch))
        .route("/experiments/{pid}/events", get(pages::experiments::events))
        .route("/experiments/{pid}/stop", post(pages::experiments::stop))
        .route("/machine", get(pages::machine::show))
        .route("/metrics", get(pages::metrics::show))
        .route("/token", get(pages::token::accept_link).post(pages::token::accept_form))
        .route("/style.css", get(pages::style))
        .route("/script.js", get(pages::script))
        .fallback(pages::not_found)
        .method_not_allowed_fallback(pages::not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY_SIZE))
        .layer(middleware::from_fn_with_state(app.clone(), check_access))
        .layer(middleware::from_fn(add_security_headers))
        .with_state(app)
}

/// Refuses requests that the access rules forbid, and limits the time of changes.
async fn check_access(State(app): Shared, request: Request, next: Next) -> Response {
    let is_token_page = request.uri().path() == "/token";
    let is_asset = matches!(request.uri().path(), "/style.css" | "/script.js");
    let (method, headers) = (request.method().clone(), request.headers());
    match app.access.check(&method, headers, is_token_page || is_asset) {
        Err(Refusal::Host) => Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this server does not answer to that host name; add it with 'ssdlab serve --name'",
        )
        .into_response(),
        Err(Refusal::Origin) => Problem::new(
            StatusCode::FORBIDDEN,
            "a change has to come from one of this server's own pages, or with the token as \
             'Authorization: Bearer'",
        )
        .into_response(),
        Err(Refusal::Token) => pages::token::token_required(&request).into_response(),
        Ok(()) if matches!(method, Method::GET | Method::HEAD) => next.run(request).await,
        Ok(()) => {
            tokio::time::timeout(CHANGE_TIMEOUT, next.run(request)).await.unwrap_or_else(|_| {
                Problem::new(StatusCode::REQUEST_TIMEOUT, "the request took too long")
                    .into_response()
            })
        }
    }
}

/// Adds the security headers to every answer.
async fn add_security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let is_file = response.extensions().get::<SavedPage>().is_some();
    let policy = if is_file { SAVED_PAGE_POLICY } else { PAGE_POLICY };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Private data must not be kept in caches.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/plain"));
    response
}

/// Marker of an answer that is a report saved as a single file, with its script inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedPage;
