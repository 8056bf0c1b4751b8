//! One FUSE file in memory, and nothing else: what the route costs that attached drives share.
//! `crates/attach/speed` compares with it.
//!
//! Usage: memory_file DIRECTORY BYTES; ends when the directory is unmounted.

use std::ffi::OsStr;
use std::os::unix::fs::FileExt;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};

const FOREVER: Duration = Duration::from_secs(3600);

struct Memory {
    file: std::fs::File,
    size: u64,
}

impl Memory {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_root = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if is_root { 0 } else { self.size },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Memory {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(512);
        let _ = config.set_congestion_threshold(512);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "memory" {
            reply.entry(&FOREVER, &self.attributes(INodeNo(2)), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local! {
            static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; 1 << 20]);
        }
        BUFFER.with_borrow_mut(|buffer| {
            let buffer = &mut buffer[..size as usize];
            match self.file.read_at(buffer, offset) {
                Ok(count) => reply.data(&buffer[..count]),
                Err(error) => reply.error(error.into()),
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
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(size)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: memory_file DIRECTORY BYTES");
        std::process::exit(2);
    };
    let size = size.parse().expect("a number of bytes");
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC)?;
    let file = std::fs::File::from(memory);
    file.set_len(size)?;
    let mut config = Config::default();
    config.n_threads = Some(2);
    config.clone_fd = true;
    Session::new(Memory { file, size }, directory, &config)?.spawn()?.join()
}
