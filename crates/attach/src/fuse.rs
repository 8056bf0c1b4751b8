//! The drive as one file of a FUSE file system.
//!
//! Reads and writes of the file reach the drive as they are sent, past the page cache. Direct
//! requests are asked for to be served at the same time (FUSE_ASYNC_DIO): without, a loop device on
//! top has one request under way at a time.

mod direct;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session,
    SessionACL, TimeOrNow, WriteFlags,
};

use crate::engine::{Answer, Engine};
use crate::error::AttachError;
use crate::timer::Timer;
use direct::Direct;

/// How long the kernel may remember what the file is: it never changes.
const FOREVER: Duration = Duration::from_secs(3600);

/// The file's number; the directory's is 1.
const FILE: INodeNo = INodeNo(2);

/// Threads that serve requests.
const THREADS: usize = 2;

/// Requests that the kernel may have under way.
const BACKGROUND: u16 = 512;

/// Bytes of one request at most: what kernels send with the usual limit of pages.
const REQUEST_MAX: u32 = 1 << 20;

/// Bytes of a read from which on its data is sent from where it lies.
const LARGE: usize = 1 << 16;

/// The file system.
struct OneFile {
    engine: Arc<Engine>,
    timer: Arc<Timer>,
    name: String,
    owner: (u32, u32),
    direct: Arc<Direct>,
}

/// The file system, mounted.
pub struct Mounted {
    session: Option<BackgroundSession>,
    directory: PathBuf,
    file: PathBuf,
}

impl Mounted {
    /// Mounts the drive as the file `name` in `directory`.
    ///
    /// # Errors
    /// When the system cannot mount it there.
    pub fn mount(
        engine: Arc<Engine>,
        timer: Arc<Timer>,
        directory: &Path,
        name: &str,
    ) -> Result<Mounted, AttachError> {
        let cannot = |error| AttachError::io("mount the file of the drive at", directory, error);
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let direct = Arc::<Direct>::default();
        let file_system =
            OneFile { engine, timer, name: name.to_owned(), owner, direct: direct.clone() };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("ssdlab".to_owned()),
            MountOption::Subtype("ssdlab".to_owned()),
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(THREADS);
        // One connection for all threads: see `direct`.
        config.clone_fd = false;
        let session = Session::new(file_system, directory, &config).map_err(cannot)?;
        direct.connect(&session).map_err(cannot)?;
        let session = session.spawn().map_err(cannot)?;
        let file = directory.join(name);
        Ok(Mounted { session: Some(session), directory: directory.to_owned(), file })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts it; requests under way are answered before.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn unmount(&mut self) -> io::Result<()> {
        match self.session.take() {
            Some(session) => session.umount_and_join(),
            None => Ok(()),
        }
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

fn errno(error: crate::engine::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl OneFile {
    fn attributes(&self, of: INodeNo) -> Option<FileAttr> {
        let (kind, size, perm, nlink) = match of {
            INodeNo::ROOT => (FileType::Directory, 0, 0o700, 2),
            FILE => (FileType::RegularFile, self.engine.capacity(), 0o600, 1),
            _ => return None,
        };
        Some(FileAttr {
            ino: of,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn reply_attributes(&self, of: INodeNo, reply: ReplyAttr) {
        match self.attributes(of) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Replies with nothing but whether it was done, at the drive's time.
    fn reply_empty(&self, outcome: Result<Answer, crate::engine::Errno>, reply: ReplyEmpty) {
        match outcome {
            Ok(answer) => self.timer.at(self.engine.deadline(answer), move || reply.ok()),
            Err(error) => reply.error(errno(error)),
        }
    }
}

impl Filesystem for OneFile {
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

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = (parent == INodeNo::ROOT && name == OsStr::new(&self.name))
            .then(|| self.attributes(FILE))
            .flatten();
        match found {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(ino, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Like a block device it keeps its length, whatever it is truncated to.
        if mode.is_some() || uid.is_some() || gid.is_some() || size.is_some() && ino != FILE {
            return reply.error(Errno::EPERM);
        }
        self.reply_attributes(ino, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, self.name.as_str()),
        ];
        for (next, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local! {
            static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        let left = self.engine.capacity().saturating_sub(offset);
        let size = u64::from(size).min(left) as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let (offset, buffer) = (offset.min(self.engine.capacity()), &mut buffer[..size]);
            let mut sent = None;
            let outcome = if size >= LARGE {
                self.engine.read_or_send(Instant::now(), offset, buffer, &mut |data| {
                    sent = Some(self.direct.send(request.unique(), data));
                })
            } else {
                self.engine.read(Instant::now(), offset, buffer)
            };
            match (outcome, sent) {
                // The crate's own reply comes too late then: the kernel knows of no such request any
                // more, and takes no notice of it.
                (_, Some(Ok(()))) => drop(reply),
                (_, Some(Err(_))) => reply.error(Errno::EIO),
                (Err(error), None) => reply.error(errno(error)),
                (Ok(answer), None) => match self.engine.deadline(answer) {
                    None => reply.data(buffer),
                    deadline => {
                        let data = buffer.to_vec();
                        self.timer.at(deadline, move || reply.data(&data));
                    }
                },
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let left = self.engine.capacity().saturating_sub(offset);
        if left == 0 {
            return reply.error(Errno::ENOSPC);
        }
        let data = &data[..(data.len() as u64).min(left) as usize];
        let is_sync = flags.0 & (libc::O_DSYNC | libc::O_SYNC) != 0;
        match self.engine.write(Instant::now(), offset, data, is_sync) {
            Ok(answer) => {
                let size = data.len() as u32;
                self.timer.at(self.engine.deadline(answer), move || reply.written(size));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file is no flush of a drive.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.reply_empty(self.engine.flush(Instant::now()), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let left = self.engine.capacity().saturating_sub(offset);
        let length = length.min(left);
        let kind = mode & !libc::FALLOC_FL_KEEP_SIZE;
        let outcome = match kind {
            // A drive that drops trims would read old data where zeros must be.
            libc::FALLOC_FL_PUNCH_HOLE if self.engine.trims() => {
                self.engine.trim(Instant::now(), offset, length, true)
            }
            libc::FALLOC_FL_ZERO_RANGE => self.engine.zero(Instant::now(), offset, length, false),
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        self.reply_empty(outcome, reply);
    }
}
