//! What is made of a report: text, JSON, pages, comparisons.

mod compare;
mod fixture;
mod html;
mod json;
mod text;
mod trend;
