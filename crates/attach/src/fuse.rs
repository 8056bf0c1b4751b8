//! The drive as one file of a FUSE file system.
//!
//! Reads and writes of the file reach the drive as they are sent, past the page cache. Direct
//! requests are asked for to be served at the same time (FUSE_ASYNC_DIO): without, a loop device on
//! top has one request under way at a time.
//!
//! A crate mounts the file system and agrees with the kernel on what is spoken. Requests are then served
//! by threads of our own (`fuse/serve.rs`): who receives requests has to send replies that are due, too.

mod file;
mod protocol;
mod serve;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;

use fuser::{
    Config, Filesystem, InitFlags, KernelConfig, MountOption, Request, Session, SessionACL,
};

use crate::engine::Engine;
use crate::error::AttachError;
use crate::lateness::Recorder;
use file::Drive;

/// Requests that the kernel may have under way.
const BACKGROUND: u16 = 512;

/// Bytes of one request at most: what kernels send with the usual limit of pages.
const REQUEST_MAX: u32 = 1 << 20;

/// Bytes that have to have room for a request besides its data.
const OVERHEAD: usize = 4096;

/// What is agreed with the kernel.
struct Agreement;

impl Filesystem for Agreement {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that lacks one of these serves requests more slowly, and nothing else.
        for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        let _ = config.set_max_write(REQUEST_MAX);
        Ok(())
    }
}

/// The file system, mounted.
pub struct Mounted {
    session: Session<Agreement>,
    threads: Vec<JoinHandle<()>>,
    directory: PathBuf,
    file: PathBuf,
    opened: Arc<AtomicU32>,
}

impl Mounted {
    /// Mounts the drive as the file `name` in `directory`; notes how late answers are.
    ///
    /// # Errors
    /// When the system cannot mount it there.
    pub fn mount(
        engine: Arc<Engine>,
        lateness: Arc<Recorder>,
        directory: &Path,
        name: &str,
    ) -> Result<Mounted, AttachError> {
        let cannot = |error| AttachError::io("mount the file of the drive at", directory, error);
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let opened = Arc::<AtomicU32>::default();
        let drive = Drive { engine, name: name.to_owned(), owner, opened: opened.clone() };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("ssdlab".to_owned()),
            MountOption::Subtype("ssdlab".to_owned()),
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::Owner;
        let session = Session::new(Agreement, directory, &config).map_err(cannot)?;
        let connection = session.as_fd().try_clone_to_owned().map_err(cannot)?;
        let most = REQUEST_MAX as usize + OVERHEAD;
        let threads = serve::start(drive, connection, lateness, most).map_err(cannot)?;
        let file = directory.join(name);
        Ok(Mounted { session, threads, directory: directory.to_owned(), file, opened })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How often the file is open, as it changes.
    pub(crate) fn opened(&self) -> Arc<AtomicU32> {
        self.opened.clone()
    }

    /// Unmounts it; requests under way are answered before.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn unmount(&mut self) -> io::Result<()> {
        self.session.unmount()?;
        for thread in self.threads.drain(..) {
            // A panic of one has been reported by itself.
            let _ = thread.join();
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What cannot be unmounted stays, and whoever looks at it sees what it is.
        let _ = self.unmount();
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted").field("file", &self.file).finish_non_exhaustive()
    }
}
