//! What other programs write and read, and what this one makes of it: fio's job files and JSON,
//! block traces in several forms, scripts for machines where nothing may be installed.
//!
//! Parsers take any bytes and either understand all of them or name the line they do not
//! understand. What is understood but left out is a [`Remark`], for a report to show.

pub mod error;
pub mod fio;
pub mod script;
pub mod trace;

pub use error::{InputError, Remark};
