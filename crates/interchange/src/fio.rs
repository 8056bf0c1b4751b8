//! fio: its job files and its JSON.

pub mod job;
pub mod json;
pub mod options;
mod sections;
mod values;
pub mod work;

pub use job::{Direction, Job, JobFile, JobGroup, SizeOrPercent};
