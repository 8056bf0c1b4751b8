//! Block devices of this machine, as the kernel and the tools of the system describe them: the only
//! reader of sysfs, of the tables below `/proc`, and of SMART. This crate never writes to a device; only
//! [`block_map::trim_free_space`] changes the contents of a drive, if a caller asks for it.
//!
//! | question | answered by |
//! | --- | --- |
//! | what is mounted, and what is swapped to | [`mounts`], [`Mount`] |
//! | what a block device is, and what lies right below it | [`node`], for a running system as for a captured one |
//! | what lies under a directory, down to the drive | [`place::Place`] |
//! | who uses a device: mounts, holders, programs, the kernel's exports | [`System`], [`user_of`], [`find_writer_of`], [`writers`] |
//! | what a drive is called, and what its link carries | [`Identity`] |
//! | how a drive is | [`smart`] |
//! | where a file lies on its device, and what is free there | [`block_map`] |
//! | what is found on a device | [`signatures`] |
//!
//! ```
//! use std::path::Path;
//!
//! use ssdlab_blockdev::mounts;
//!
//! let table = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 8:2 / /home rw - xfs /dev/sda2 rw,discard\n";
//! let mounts = mounts::read(table);
//! let home = mounts::above(Path::new("/home/user"), &mounts).expect("a mount");
//! assert_eq!((home.file_system.as_str(), home.device.to_string()), ("xfs", "8:2".to_owned()));
//! ```

#[cfg(target_os = "linux")]
pub mod block_map;
mod device;
mod exports;
mod identity;
mod inode;
pub mod mounts;
pub mod node;
pub mod place;
mod portable;
pub mod signatures;
pub mod smart;
pub mod tool;
pub mod writers;

pub use device::{
    DeviceNumber, System, find_writer_of, listed_user_of_any, loop_above, partitions_of, related,
    unclaimed_writer, user_of,
};
pub use identity::{Identity, Link, text_in};
pub use mounts::Mount;
