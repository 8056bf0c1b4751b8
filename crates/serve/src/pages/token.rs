//! Page on which the user gives the token.

use axum::body::Bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::html;

use super::{Fields, View, link_with_query, redirect_to};
use crate::access::COOKIE_NAME;
use crate::app::Shared;

/// Returns the form for the token, in answer to a request that lacks it.
pub(crate) fn token_required(request: &Request) -> Response {
    let is_reading = matches!(request.method().as_str(), "GET" | "HEAD");
    let to = match is_reading {
        true => request.uri().path_and_query().map_or("/", |it| it.as_str()),
        false => "/",
    };
    let message = if is_reading { "Reading needs the token" } else { "A change needs the token" };
    form_response(StatusCode::UNAUTHORIZED, message, to)
}

fn form_response(status: StatusCode, message: &str, to: &str) -> Response {
    let view = View { part: "", may_change: false };
    let body = html! {
        p { (message) " that 'ssdlab serve' printed at its start, or was started with." }
        form.lines method="post" action="/token" {
            input type="hidden" name="to" value=(to);
            label { "Token " input type="password" name="token" autocomplete="off" required; }
            p { button type="submit" { "Go on" } }
        }
    };
    (status, view.page("Token", &body)).into_response()
}

/// Accepts the token in the address that `ssdlab serve` printed, or shows the form.
pub(crate) async fn accept_link(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let fields = Fields::of_query(query);
    match fields.non_empty("token") {
        None => form_response(StatusCode::OK, "Changes need the token", fields.get("to")),
        Some(token) => set_cookie(&app, &token, fields.get("to")),
    }
}

/// Accepts the token from the form. An empty token removes the cookie.
pub(crate) async fn accept_form(State(app): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let fields = Fields::read(&body);
    let token = fields.get("token").trim();
    if token.is_empty() && app.access.is_trusted(&headers) {
        let cookie = format!("{COOKIE_NAME}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
        return ([(SET_COOKIE, cookie)], redirect_to("/")).into_response();
    }
    set_cookie(&app, token, fields.get("to"))
}

fn set_cookie(app: &crate::app::App, token: &str, to: &str) -> Response {
    if !app.access.token.matches(token) {
        return form_response(StatusCode::UNAUTHORIZED, "That token differs from the one", to);
    }
    // Redirect only to pages of this server: to a path, and not to '//host'.
    let path = to.split(['?', '#']).next().unwrap_or_default();
    let is_own =
        path.starts_with('/') && !path.starts_with("//") && !to.contains(['\\', '\r', '\n']);
    let to = if is_own { to } else { "/" };
    let cookie = format!("{COOKIE_NAME}={token}; HttpOnly; SameSite=Strict; Path=/");
    ([(SET_COOKIE, cookie)], redirect_to(&link_with_query(to, &[]))).into_response()
}
