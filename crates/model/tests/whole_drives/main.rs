//! Whole drives: their write amplification against theory, ageing, collection on the smallest, a reviewed cache, and
//! what comes from outside. They are one program, since compiling the drive takes longer than running them.
//!
//! One of them: `cargo test -p ssdlab-model --test whole_drives aged`.

mod aged;
mod collection_ends;
mod hostile_input;
mod log_block;
mod slc_cache;
mod together;
#[path = "../untrusted/mod.rs"]
mod untrusted;
mod write_amplification;
