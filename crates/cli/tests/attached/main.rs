//! Drives that are attached, as their users meet them: file systems, databases, clients of other
//! makers, kills, power cuts and full disks.
//!
//! What needs root, a mount or a tool that is missing says so on stderr.
#![cfg(target_os = "linux")]

mod client;
mod databases;
mod examples;
#[path = "../extract/mod.rs"]
mod extract;
mod file_systems;
mod full_disk;
mod in_use;
mod kills;
mod leftovers;
mod limits;
mod nbd_clients;
mod nonsense;
mod postgres;
mod read_only;
mod refresh;
mod refresh_case;
mod refresh_kills;
mod refresh_real_time;
mod refresh_target;
mod refresh_writes;
mod refresh_xfs;
mod structured;
mod support;
mod surface;
