//! Common parts of the pages: head, navigation, errors, forms.

mod blocks;
pub(crate) mod compare;
#[cfg(target_os = "linux")]
pub(crate) mod drives;
pub(crate) mod experiments;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod token;

use std::error::Error;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::{DOCTYPE, Markup, html};
#[cfg(target_os = "linux")]
use ssdlab_attach::AttachError;
use ssdlab_host::HostError;
use ssdlab_lab::output::html as report_html;
use ssdlab_lab::store::StoreError;
use ssdlab_rundir::RunDirectoryError;

use crate::app::App;
use crate::runner::StartError;

const STYLE: &str = include_str!("pages/style.css");
const SCRIPT: &str = include_str!("pages/script.js");

/// Parts of the site, as the navigation lists them.
const NAVIGATION: &[(&str, &str)] = &[
    ("/", "Runs"),
    ("/experiments", "Experiments"),
    #[cfg(target_os = "linux")]
    ("/drives", "Attached drives"),
    ("/machine", "This machine"),
];

/// Part of the site that a page belongs to, and rights of the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Path of the part in the navigation; empty for error pages.
    pub(crate) part: &'static str,
    /// True if the user may make changes.
    pub(crate) may_change: bool,
}

impl View {
    pub(crate) fn new(app: &App, headers: &HeaderMap, part: &'static str) -> View {
        View { part, may_change: app.access.is_trusted(headers) }
    }

    /// Returns a page with `title` as its heading.
    pub(crate) fn page(self, title: &str, body: &Markup) -> Html<String> {
        self.page_with_own_heading(title, &html! { header { h1 { (title) } } main { (body) } })
    }

    /// Returns a page whose body has a heading of its own.
    pub(crate) fn page_with_own_heading(self, title: &str, body: &Markup) -> Html<String> {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " \u{b7} ssdlab" }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href="/style.css";
                    script src="/script.js" defer {}
                }
                body {
                    a.skip href="#content" { "To the content" }
                    nav.parts aria-label="Parts" {
                        b { "ssdlab" }
                        @for (path, name) in NAVIGATION {
                            a href=(path) aria-current=[(*path == self.part).then_some("page")] { (name) }
                        }
                    }
                    div #content tabindex="-1" { (body) }
                    footer {
                        p { "ssdlab " (env!("CARGO_PKG_VERSION")) " on this machine." }
                        @if self.part.is_empty() {
                            // Such pages are made without checking the user's rights.
                        } @else if self.may_change {
                            form method="post" action="/token" {
                                input type="hidden" name="token" value="";
                                button type="submit" { "Forget the token" }
                            }
                        } @else {
                            p { "Read-only. " a href="/token" { "Give the token" }
                                " to make changes." }
                        }
                    }
                }
            }
        };
        Html(markup.into_string())
    }
}

/// Error of a request: its status and the sentences that explain it.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    sentences: Vec<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, sentence: &str) -> Problem {
        Problem { status, sentences: vec![sentence.to_owned()] }
    }

    pub(crate) fn not_found(sentence: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, sentence)
    }

    /// Returns the sentences as markup, for a page that says more.
    fn sentences_markup(&self) -> Markup {
        html! { @for sentence in &self.sentences { p.refused { (capitalize(sentence)) "." } } }
    }

    fn of(status: StatusCode, error: &(dyn Error + 'static)) -> Problem {
        let mut sentences: Vec<String> = Vec::new();
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            if !sentences.iter().any(|said| said.contains(&text)) {
                sentences.push(text);
            }
            next = error.source();
        }
        Problem { status, sentences }
    }
}

/// Returns the text of an error, which may be a part of a sentence, with a capital first letter.
fn capitalize(words: &str) -> String {
    // The name of a key or setting keeps its spelling.
    let first = words.split_whitespace().next().unwrap_or_default();
    if first.ends_with(':') || first.contains(['.', '_', '=']) {
        return words.to_owned();
    }
    let mut rest = words.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let view = View { part: "", may_change: false };
        let title = self.status.canonical_reason().unwrap_or("Not done");
        let body = html! {
            (self.sentences_markup())
            p { a href="/" { "To the runs" } }
        };
        (self.status, view.page(title, &body)).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let status = match &error {
            StoreError::NoSuchRun { .. } | StoreError::Missing { .. } => StatusCode::NOT_FOUND,
            StoreError::BadReference { .. } => StatusCode::NOT_FOUND,
            StoreError::Annotation(_) => StatusCode::BAD_REQUEST,
            StoreError::Locked { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::of(status, &error)
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Problem {
        let status = match &error {
            StartError::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            StartError::Start(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::of(status, &error)
    }
}

impl From<RunDirectoryError> for Problem {
    fn from(error: RunDirectoryError) -> Problem {
        Problem::of(StatusCode::INTERNAL_SERVER_ERROR, &error)
    }
}

#[cfg(target_os = "linux")]
impl From<AttachError> for Problem {
    fn from(error: AttachError) -> Problem {
        Problem::of(StatusCode::INTERNAL_SERVER_ERROR, &error)
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Problem {
        let status = match error {
            HostError::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::of(status, &error)
    }
}

/// Response to a request, or the error to show.
pub(crate) type PageResult = Result<Response, Problem>;

/// Names and values of a query or a form; a name may have several values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn read(text: &[u8]) -> Fields {
        Fields(form_urlencoded::parse(text).into_owned().collect())
    }

    pub(crate) fn of_query(query: Option<String>) -> Fields {
        Fields::read(query.unwrap_or_default().as_bytes())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a name; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Returns the first value of a name, or `None` if it is empty or missing.
    pub(crate) fn non_empty(&self, name: &str) -> Option<String> {
        Some(self.get(name).trim().to_owned()).filter(|value| !value.is_empty())
    }
}

/// Returns a link with a query, without empty values.
pub(crate) fn link_with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Redirects the browser to a page of this server after a change.
pub(crate) fn redirect_to(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// Returns an RFC 3339 time to the minute; other text is returned unchanged.
pub(crate) fn format_time(text: &str) -> String {
    let read = text.parse::<jiff::Timestamp>();
    read.map_or_else(|_| text.to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// Returns an estimated duration, rounded up to a second, a minute or ten minutes.
pub(crate) fn approximate_duration(seconds: f64) -> String {
    let steps = [(120.0, 1.0), (6_000.0, 60.0), (f64::INFINITY, 600.0)];
    let step = steps.iter().find(|(below, _)| seconds < *below).map_or(1.0, |(_, step)| *step);
    let rounded = ((seconds.max(0.0) / step).ceil() * step).min(1e15) as u64;
    humantime::format_duration(std::time::Duration::from_secs(rounded)).to_string()
}

pub(crate) async fn style() -> Response {
    let all = [report_html::style(), STYLE].concat();
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], all).into_response()
}

pub(crate) async fn script() -> Response {
    let all = [report_html::script(), SCRIPT].concat();
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], all).into_response()
}

pub(crate) async fn not_found() -> Problem {
    Problem::not_found("there is no such page")
}

pub(crate) async fn not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "that cannot be done to this page")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_put_into_a_link() {
        let pairs =
            [("target", "raid1(sim:a;sim:b),sync=none"), ("tag", ""), ("words", "7 % & more")];
        let made = link_with_query("/trend", &pairs);
        let (path, query) = made.split_once('?').unwrap();
        assert_eq!(path, "/trend");
        let fields = Fields::of_query(Some(query.to_owned()));
        assert_eq!(fields.get("target"), pairs[0].1);
        assert_eq!(fields.get("words"), pairs[2].1);
        assert_eq!(fields.non_empty("tag"), None);
        assert_eq!(link_with_query("/", &[("tag", "")]), "/");
        let several = Fields::read(b"run=1&run=2&other=3");
        assert_eq!(several.all("run").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn a_problem_is_a_sentence() {
        assert_eq!(capitalize("there is no such page"), "There is no such page");
        assert_eq!(capitalize("\"x\" is no seed"), "\"x\" is no seed");
        assert_eq!(capitalize("scale: '1/x' is none"), "scale: '1/x' is none");
        assert_eq!(capitalize("flash.page_read has no unit"), "flash.page_read has no unit");
        assert_eq!(capitalize("\u{e4}lter"), "\u{c4}lter");
        assert_eq!(capitalize(""), "");
    }

    #[test]
    fn a_page_shows_what_it_is_given_as_text() {
        let view = View { part: "/", may_change: true };
        let hostile = "<script>alert(1)</script>\"'";
        let Html(page) = view.page(hostile, &html! { p title=(hostile) { (hostile) } });
        assert!(!page.contains("<script>alert"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 4);
        assert!(page.contains("title=\"&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{page}");
    }
}
