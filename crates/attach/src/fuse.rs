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

use crate::device::PATIENCE;
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

/// Between two tries to unmount.
const SHORTLY: Duration = Duration::from_millis(10);

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
    /// The kernel's number of the connection, which is the minor number of the file system.
    connection: u32,
    is_unmounted: bool,
}

impl Mounted {
    /// Mounts the drive as the file `name` in `directory`; notes how late answers are.
    ///
    /// # Errors
    /// Returns an error if the system cannot mount it there.
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
        let connection = rustix::fs::minor(directory.metadata().map_err(cannot)?.dev());
        let directory = directory.to_owned();
        Ok(Mounted { session, threads, directory, file, opened, connection, is_unmounted: false })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns how often the file is open, as it changes.
    pub(crate) fn opened(&self) -> Arc<AtomicU32> {
        self.opened.clone()
    }

    /// Unmounts it; requests under way are answered before. Waits for `patience` for who has something of it
    /// open, or is in it, and is not kept by them: what they ask of the drive fails once that is closed.
    ///
    /// # Errors
    /// Returns an error if the system fails it. It is mounted then, and its threads go on.
    pub fn unmount(&mut self, patience: Duration) -> io::Result<()> {
        if self.is_unmounted {
            return Ok(());
        }
        self.take_away(Instant::now() + patience)?;
        self.is_unmounted = true;
        // The kernel ends the connection when the last user has gone, or another name space that has a
        // copy of the mount.
        let until = Instant::now() + patience;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() > until && !self.abort() {
                // They end with the program.
                self.threads.clear();
                return Ok(());
            }
            std::thread::sleep(SHORTLY);
        }
        for thread in self.threads.drain(..) {
            // A panic of one has been reported by itself.
            let _ = thread.join();
        }
        Ok(())
    }

    fn take_away(&mut self, until: Instant) -> io::Result<()> {
        loop {
            match unmount(&self.directory, UnmountFlags::NOFOLLOW) {
                // It is not mounted any more.
                Ok(()) | Err(Errno::INVAL) => break,
                Err(Errno::BUSY) if Instant::now() < until => std::thread::sleep(SHORTLY),
                Err(Errno::BUSY) => {
                    unmount(&self.directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
                    break;
                }
                // Not root: a program that may do it is asked.
                Err(Errno::PERM) => return self.session.unmount(),
                Err(error) => return Err(error.into()),
            }
        }
        // The session is told, and finds that nothing is mounted there.
        let _ = self.session.unmount();
        Ok(())
    }

    /// Has the kernel end the connection; returns whether it can be asked to.
    fn abort(&self) -> bool {
        std::fs::write(format!("/sys/fs/fuse/connections/{}/abort", self.connection), "1").is_ok()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What cannot be unmounted stays, and whoever looks at it sees what it is.
        let _ = self.unmount(PATIENCE);
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted").field("file", &self.file).finish_non_exhaustive()
    }
}
