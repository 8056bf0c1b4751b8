//! The drive as one file of a FUSE file system.
//!
//! Reads and writes of the file reach the drive as they are sent, bypassing the page cache. FUSE_ASYNC_DIO is
//! asked for, so that direct requests are served concurrently: without it, a loop device on the file has one
//! request in flight.
//!
//! The crate `fuser` mounts the file system and negotiates with the kernel. Requests are then served by threads
//! of this module (`fuse/serve.rs`), because the thread that receives requests also has to send replies that
//! are due.

mod file;
mod protocol;
mod serve;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{
    Config, Filesystem, InitFlags, KernelConfig, MountOption, Request, Session, SessionACL,
};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::completion_lateness::LatenessHistogram;
use crate::device::TIMEOUT;
use crate::engine::Engine;
use crate::error::AttachError;
use file::Drive;

/// Maximum number of requests that the kernel may have in flight.
const BACKGROUND: u16 = 512;

/// Maximum bytes of data in one request: the kernel's default limit of pages.
const REQUEST_MAX: u32 = 1 << 20;

/// Bytes in the buffer of a request besides its data.
const OVERHEAD: usize = 4096;

/// Interval between tries to unmount.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Negotiation with the kernel.
struct Negotiation;

impl Filesystem for Negotiation {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that lacks one of these serves requests more slowly, nothing else.
        for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        let _ = config.set_max_write(REQUEST_MAX);
        Ok(())
    }
}

/// The mounted file system.
pub struct Mounted {
    session: Session<Negotiation>,
    threads: Vec<JoinHandle<()>>,
    directory: PathBuf,
    file: PathBuf,
    opened: Arc<AtomicU32>,
    /// The kernel's number of the connection: the minor number of the file system's device.
    connection: u32,
    is_unmounted: bool,
}

impl Mounted {
    /// Mounts the drive as the file `name` in `directory`; records lateness of answers in `lateness`.
    ///
    /// # Errors
    /// Returns an error if the file system cannot be mounted there.
    pub fn mount(
        engine: Arc<Engine>,
        lateness: Arc<LatenessHistogram>,
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
        let session = Session::new(Negotiation, directory, &config).map_err(cannot)?;
        let connection = session.as_fd().try_clone_to_owned().map_err(cannot)?;
        let request_max = REQUEST_MAX as usize + OVERHEAD;
        let threads = serve::start(drive, connection, lateness, request_max).map_err(cannot)?;
        let file = directory.join(name);
        let connection = rustix::fs::minor(directory.metadata().map_err(cannot)?.dev());
        let directory = directory.to_owned();
        Ok(Mounted { session, threads, directory, file, opened, connection, is_unmounted: false })
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the mount point.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the live number of open handles of the file.
    pub(crate) fn opened(&self) -> Arc<AtomicU32> {
        self.opened.clone()
    }

    /// Unmounts the file system; requests in flight are answered before. Waits up to `patience` for users. If
    /// they stay, detaches the mount nevertheless: their requests fail once the drive is closed.
    ///
    /// # Errors
    /// Returns an error if the system refuses. The file system then stays mounted, and its threads go on.
    pub fn unmount(&mut self, patience: Duration) -> io::Result<()> {
        if self.is_unmounted {
            return Ok(());
        }
        self.unmount_within(Instant::now() + patience)?;
        self.is_unmounted = true;
        // The kernel ends the connection when the last user has gone; also one in another name space that has a
        // copy of the mount.
        let until = Instant::now() + patience;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() > until && !self.abort() {
                // The threads end with the program.
                self.threads.clear();
                return Ok(());
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        for thread in self.threads.drain(..) {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
        Ok(())
    }

    fn unmount_within(&mut self, until: Instant) -> io::Result<()> {
        loop {
            match unmount(&self.directory, UnmountFlags::NOFOLLOW) {
                // The directory is not mounted any more.
                Ok(()) | Err(Errno::INVAL) => break,
                Err(Errno::BUSY) if Instant::now() < until => std::thread::sleep(RETRY_INTERVAL),
                Err(Errno::BUSY) => {
                    unmount(&self.directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
                    break;
                }
                // Without root, `fusermount3` has to unmount it.
                Err(Errno::PERM) => return self.session.unmount(),
                Err(error) => return Err(error.into()),
            }
        }
        // The session has to know; it finds nothing mounted there.
        let _ = self.session.unmount();
        Ok(())
    }

    /// Asks the kernel to end the connection; returns true if that is possible.
    fn abort(&self) -> bool {
        std::fs::write(format!("/sys/fs/fuse/connections/{}/abort", self.connection), "1").is_ok()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A mount that cannot be removed stays visible to the user.
        let _ = self.unmount(TIMEOUT);
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted").field("file", &self.file).finish_non_exhaustive()
    }
}
