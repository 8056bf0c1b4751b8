//! Where tests write, how, and what they find there.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use ssdlab_blockio::{Engine, RealDrive, RealOptions};
use ssdlab_drive::{
    Amount, Drive, DriveError, Mix, Pattern, Phase, PhaseResult, Region, Unobserved,
};
use ssdlab_units::{ByteLength, MIB, Nanoseconds};
use tempfile::TempDir;

/// Says that a test did not run, past the capturing of output.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {test}: {why}");
}

pub fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Options for a test: any file system will do, and a nearly full one too.
pub fn options() -> RealOptions {
    RealOptions { require_direct: false, reserve: Some(ByteLength::ZERO), ..RealOptions::default() }
}

/// Returns the options for a path that is a file to create.
pub fn for_file(options: RealOptions) -> RealOptions {
    RealOptions { create_file: true, ..options }
}

pub fn without_uring() -> RealOptions {
    RealOptions { engine: Engine::Threads, ..options() }
}

pub fn open(path: &Path, length: ByteLength) -> RealDrive {
    let mut drive =
        RealDrive::open(path, RealOptions { create_file: !path.is_dir(), ..options() }).unwrap();
    drive.prepare(length).unwrap();
    drive
}

/// A phase over the first `length` bytes, each block once.
pub fn phase(pattern: Pattern, mix: Mix, block_size: ByteLength, length: ByteLength) -> Phase {
    Phase {
        name: "test".into(),
        pattern,
        block_size,
        depth: 1,
        mix,
        region: Region::first(length),
        amount: Amount::Bytes(length),
        rate: None,
        seed: 7,
        flush_at_end: false,
        interval: Nanoseconds::ZERO,
    }
}

pub fn run(drive: &mut RealDrive, phase: &Phase) -> PhaseResult {
    drive.run_phase(phase, &mut Unobserved).unwrap()
}

pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The file that this process created at `path`, which has no name any more.
pub fn own_file(path: &Path) -> fs::File {
    let link = PathBuf::from(format!("{} (deleted)", path.display()));
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let found = descriptors.into_iter().find(|it| fs::read_link(it).is_ok_and(|to| to == link));
    fs::File::options().read(true).write(true).open(found.unwrap()).unwrap()
}

pub fn text_with_causes(error: &DriveError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Held while a program is started. Until it runs, its process has what this one has open, and would keep
/// the mount of another test busy.
static STARTING: Mutex<()> = Mutex::new(());

fn output_of(program: &str, arguments: &[&str]) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn();
    drop(starting);
    child?.wait_with_output()
}

pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    output_of(program, arguments).is_ok_and(|output| output.status.success())
}

/// Something mounted for the time of a test.
pub struct Mounted(pub PathBuf);

impl Mounted {
    pub fn new(directory: PathBuf, arguments: &[&str]) -> Option<Mounted> {
        fs::create_dir(&directory).unwrap();
        let point = directory.to_str().unwrap();
        succeeds("mount", &[arguments, &[point]].concat()).then_some(Mounted(directory))
    }

    pub fn memory(directory: PathBuf, options: &str) -> Option<Mounted> {
        Mounted::new(directory, &["-t", "tmpfs", "-o", options, "tmpfs"])
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        assert!(succeeds("umount", &[self.0.to_str().unwrap()]));
    }
}

pub struct LoopDevice(pub PathBuf);

impl LoopDevice {
    pub fn new(file: &Path) -> Option<LoopDevice> {
        fs::File::create(file).unwrap().set_len((MIB * 32).bytes()).unwrap();
        let arguments = ["--find", "--show", file.to_str().unwrap()];
        let output = output_of("losetup", &arguments).ok()?;
        let device = String::from_utf8(output.stdout).ok()?;
        let attached = output.status.success();
        attached.then(|| LoopDevice(device.trim().into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        assert!(succeeds("losetup", &["-d", self.0.to_str().unwrap()]));
    }
}
