//! Page on which the user gives the token.

use axum::body::Bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::html;

use super::{Fields, View, go_to, link};
use crate::access::COOKIE_NAME;
use crate::app::Shared;

/// Returns the form for the token, in answer to a request that lacks it.
pub(crate) fn ask(request: &Request) -> Response {
    let is_reading = matches!(request.method().as_str(), "GET" | "HEAD");
    let to = match is_reading {
        true => request.uri().path_and_query().map_or("/", |it| it.as_str()),
        false => "/",
    };
    let words = if is_reading { "Looking takes the token" } else { "A change takes the token" };
    form(StatusCode::UNAUTHORIZED, words, to)
}

fn form(status: StatusCode, words: &str, to: &str) -> Response {
    let view = View { part: "", may_change: false };
    let body = html! {
        p { (words) " that 'ssdlab serve' printed when it began, or that it was started with." }
        form.lines method="post" action="/token" {
            input type="hidden" name="to" value=(to);
            label { "Token " input type="password" name="token" autocomplete="off" required; }
            p { button type="submit" { "Go on" } }
        }
    };
    (status, view.page("Token", &body)).into_response()
}

/// Accepts the token in the address that `ssdlab serve` printed, or shows the form.
pub(crate) async fn take(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let fields = Fields::of_query(query);
    match fields.given("token") {
        None => form(StatusCode::OK, "Changes take the token", fields.get("to")),
        Some(token) => keep(&app, &token, fields.get("to")),
    }
}

/// Accepts the token from the form. An empty token removes the cookie.
pub(crate) async fn give(State(app): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let fields = Fields::read(&body);
    let token = fields.get("token").trim();
    if token.is_empty() && app.access.is_trusted(&headers) {
        let cookie = format!("{COOKIE_NAME}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
        return ([(SET_COOKIE, cookie)], go_to("/")).into_response();
    }
    keep(&app, token, fields.get("to"))
}

fn keep(app: &crate::app::App, token: &str, to: &str) -> Response {
    if !app.access.token.is(token) {
        return form(StatusCode::UNAUTHORIZED, "That was another token than the one", to);
    }
    // Redirect only to pages of this server: to a path, and not to '//host'.
    let path = to.split(['?', '#']).next().unwrap_or_default();
    let is_own =
        path.starts_with('/') && !path.starts_with("//") && !to.contains(['\\', '\r', '\n']);
    let to = if is_own { to } else { "/" };
    let cookie = format!("{COOKIE_NAME}={token}; HttpOnly; SameSite=Strict; Path=/");
    ([(SET_COOKIE, cookie)], go_to(&link(to, &[]))).into_response()
}
