//! Output formats of a report: text for a terminal ([`text`]), an HTML page ([`html`]), and formats for
//! programs ([`json`], [`csv`], [`hdr`]).
//!
//! All of them read the same [`Report`](crate::report::Report) and know no experiment by name: the layout
//! follows from names, units and shapes, so that a new experiment needs no code here.

pub(crate) mod axis;
pub(crate) mod chart;
pub mod csv;
pub(crate) mod format;
pub mod hdr;
pub mod html;
pub mod json;
mod recording_table;
pub mod text;

pub use format::{label, significant, span};
pub use recording_table::shades;
