//! Readers and writers of other programs' files: fio's jobs and results, block traces, and scripts.
//!
//! | what | module |
//! | --- | --- |
//! | fio's job files, what a job does on a target, and fio's results | [`fio`] |
//! | block traces in several forms, surveyed before they are used | [`trace`] |
//! | protocols as scripts, for machines where nothing may be installed | [`script`] |
//!
//! Parsers take any bytes. They either understand all of them, or return the line that they do not understand
//! ([`InputError`]). Options that are understood but not carried out become a [`Remark`], which reports show.
//!
//! ```
//! use ssdlab_interchange::fio::JobFile;
//! use ssdlab_units::KIB;
//!
//! let text = "[reads]\nrw=randread\nbs=4k\nioengine=libaio\niodepth=32\nsize=1g\nfilename=/dev/x\n";
//! let file = JobFile::parse(text)?;
//! let job = file.jobs().next().expect("a job");
//! assert_eq!((job.name.as_str(), job.block_size, job.depth), ("reads", KIB * 4, 32));
//!
//! let wrong = JobFile::parse("[reads]\nrw=sideways\n").expect_err("no such order");
//! assert!(wrong.to_string().contains("sideways"));
//! # Ok::<(), ssdlab_interchange::InputError>(())
//! ```

mod error;
pub mod fio;
pub mod script;
pub mod trace;

pub use error::{InputError, Remark};
