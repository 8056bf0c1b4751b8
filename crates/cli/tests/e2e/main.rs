//! The program as a user meets it: arguments in; streams, files and exit codes out.
//!
//! Every run has a store of its own. Tests that need root, a mount or a block device say on
//! stderr, past the capturing of output, when they are skipped.
#![cfg(target_os = "linux")]

#[path = "../extract/documents.rs"]
mod documents;
#[path = "../extract/mod.rs"]
mod extract;

mod advise;
mod attach;
mod compare;
mod completion;
mod device;
mod device_files;
mod doctor;
mod documented_output;
mod examples;
mod experiments;
mod files;
mod generated;
mod interchange;
mod power_cut;
mod precondition;
mod profiles;
mod quick;
mod real;
mod reference;
mod report;
mod serve;
mod simulated;
mod store;
mod support;
mod sweep;
mod targets;
mod wear;
mod wrong_calls;
