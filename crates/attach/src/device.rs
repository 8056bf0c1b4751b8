//! A loop device on the drive's file, and a file system on it, made with the system's tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::AttachError;
use crate::stale_mounts::is_stale;
use crate::users;

/// Time to wait for users of the device to let go of it, by default.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for which `mkfs` and `mount` are repeated while another process has the device.
pub(crate) const BUSY_RETRY_MAX: Duration = Duration::from_secs(2);

/// Interval between tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Runs a tool of the system; returns its output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, AttachError> {
    let output = Command::new(program)
        .args(arguments)
        // Its messages are parsed, so they have to be in English.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| AttachError::io("run", Path::new(program), error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let message = format!("{program} {}: {}", arguments.join(" "), said.trim());
    Err(AttachError::System(message))
}

/// Runs a tool that takes the device for itself, and repeats that while another process has the device.
/// `losetup --find` claims each loop device that it tries for a moment, also one in use.
fn run_exclusively(program: &str, arguments: &[&str]) -> Result<String, AttachError> {
    let began = Instant::now();
    loop {
        match run(program, arguments) {
            Err(AttachError::System(message))
                if is_busy(&message) && began.elapsed() < BUSY_RETRY_MAX =>
            {
                std::thread::sleep(RETRY_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

/// Returns true if a tool's message says that another process has the device.
fn is_busy(message: &str) -> bool {
    ["in use by the system", "resource busy", "already mounted or mount point busy"]
        .iter()
        .any(|said| message.contains(said))
}

/// A loop device of this process.
#[derive(Debug)]
pub struct LoopDevice {
    path: String,
    /// Its file as the kernel names it: the device is still this process's while it has this file.
    file: String,
    mounted: Option<PathBuf>,
    is_read_only: bool,
}

impl LoopDevice {
    /// Creates a loop device on `file` with direct I/O; with `is_read_only` it takes no writes.
    ///
    /// # Errors
    /// Returns an error if there is no free loop device, or this user may not create one.
    pub fn attach(file: &Path, is_read_only: bool) -> Result<LoopDevice, AttachError> {
        if !rustix::process::geteuid().is_root() {
            return Err(AttachError::System(
                "a block device needs root; --file DIR gives a file, --nbd ADDRESS a server"
                    .to_owned(),
            ));
        }
        let name = file.to_string_lossy().into_owned();
        let mut arguments = vec!["--find", "--show", "--direct-io=on"];
        if is_read_only {
            arguments.push("--read-only");
        }
        arguments.push(&name);
        let path = run("losetup", &arguments)?;
        allow_discard(&path);
        let file = backing_file(&path).ok_or_else(|| {
            AttachError::System(format!("the kernel does not report the backing file of {path}"))
        })?;
        Ok(LoopDevice { path, file, mounted: None, is_read_only })
    }

    /// Returns the path, such as `/dev/loop0`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Mounts the device at `directory`. If the drive `is_blank`, makes a file system first: no unit is mapped
    /// then, so nothing can be lost. A drive without a known signature may hold data all the same.
    ///
    /// # Errors
    /// Returns an error if a tool fails, or if the drive holds something that cannot be mounted.
    pub fn mount(
        &mut self,
        directory: &Path,
        file_system: &str,
        is_blank: bool,
    ) -> Result<(), AttachError> {
        if file_system.is_empty() || !file_system.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(AttachError::Usage(format!(
                "'{file_system}' is not the name of a file system"
            )));
        }
        if is_blank && self.is_read_only {
            let message = "the drive is attached read-only and holds nothing that could be mounted";
            return Err(AttachError::System(message.to_owned()));
        }
        if is_blank {
            make_file_system(file_system, &self.path)?;
        } else {
            self.check_mountable(file_system)?;
        }
        // As in the mount table, where the mount is looked up later.
        let directory = std::fs::canonicalize(directory)
            .map_err(|error| AttachError::io("mount at", directory, error))?;
        let how = if self.is_read_only { "ro" } else { "rw" };
        run_exclusively("mount", &["-o", how, &self.path, &directory.to_string_lossy()])?;
        self.mounted = Some(directory);
        Ok(())
    }

    /// Returns an error if the drive holds something that cannot be mounted as a whole.
    fn check_mountable(&self, file_system: &str) -> Result<(), AttachError> {
        let value = |name: &str| {
            let found = run("blkid", &["-p", "-o", "value", "-s", name, &self.path]);
            found.ok().filter(|value| !value.is_empty())
        };
        if value("TYPE").is_some() {
            // `mount` reports what is wrong if the type is no file system.
            return Ok(());
        }
        let found = match value("PTTYPE") {
            Some(table) => format!("a partition table ({table})"),
            None => "data, and no file system that blkid finds".to_owned(),
        };
        Err(AttachError::Holds { found, file_system: file_system.to_owned() })
    }

    /// Returns the mount points that others have made, as text; `None` if there are none.
    pub fn other_mounts(&self) -> Option<String> {
        let ours = self.mounted.as_ref().map(|it| it.to_string_lossy().into_owned());
        let mut points = users::mount_points(&self.path);
        points.retain(|point| Some(point) != ours.as_ref());
        (!points.is_empty()).then(|| format!("it is mounted at {}", points.join(", ")))
    }

    /// Unmounts all mounts of the device, and detaches the device; waits until `until` for users.
    ///
    /// # Errors
    /// Returns an error if the device stays in use. It then works on, and what was written to a file system on
    /// it is on the drive.
    pub fn detach(&mut self, until: Instant) -> Result<(), AttachError> {
        if !self.is_ours() {
            return Ok(());
        }
        for point in users::mount_points(&self.path).into_iter().rev() {
            unmount(&point, until).map_err(|error| {
                // If the sync fails, the data would not be safer without the drive.
                let _ = run("sync", &["-f", &point]);
                self.busy(error)
            })?;
        }
        self.mounted = None;
        let cannot = |error| AttachError::io("ask for", Path::new(&self.path), error);
        let claim = loop {
            match users::claim(&self.path).map_err(cannot)? {
                Some(claim) => break claim,
                // Udev probes a device for a moment after an unmount.
                None if Instant::now() < until => std::thread::sleep(RETRY_INTERVAL),
                None => return Err(self.busy(users::names(&self.path))),
            }
        };
        self.detach_loop_device(until, Some(claim))
    }

    /// Takes the device away from its users, when its drive has lost power and fails all requests.
    ///
    /// # Errors
    /// Returns an error if the system does not release the device.
    pub fn force_detach(&mut self, until: Instant) -> Result<(), AttachError> {
        if !self.is_ours() {
            return Ok(());
        }
        for point in users::mount_points(&self.path).into_iter().rev() {
            unmount(&point, until).map_err(|error| self.busy(error))?;
        }
        self.mounted = None;
        self.detach_loop_device(until, None)
    }

    /// Detaches the device although it is in use: the kernel removes it when the last user closes or unmounts
    /// it. The drive ends before that, so the device fails all requests until then.
    pub(crate) fn detach_lazily(self) {
        if self.is_ours() {
            // If this fails too, nothing else can be done.
            let _ = run("losetup", &["--detach", &self.path]);
        }
    }

    fn detach_loop_device(
        &self,
        until: Instant,
        claim: Option<std::fs::File>,
    ) -> Result<(), AttachError> {
        // A drive without power fails the flush, and is detached nevertheless.
        let _ = run("blockdev", &["--flushbufs", &self.path]);
        run("losetup", &["--detach", &self.path])?;
        drop(claim);
        // The kernel releases the device when the last process that has it open closes it.
        while self.is_ours() {
            if Instant::now() > until {
                return Err(self.busy("a program has it open".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns true if the device still has this process's file.
    fn is_ours(&self) -> bool {
        backing_file(&self.path).is_some_and(|file| file == self.file)
    }

    fn busy(&self, users: String) -> AttachError {
        AttachError::Busy { place: self.path.clone(), users }
    }
}

/// Unmounts `point`. Returns the reason as text if that fails until `until`.
fn unmount(point: &str, until: Instant) -> Result<(), String> {
    loop {
        match run("umount", &[point]) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error.to_string()),
            Err(_) => std::thread::sleep(RETRY_INTERVAL),
        }
    }
}

/// Makes a file system. Some tools look at all mounts and fail if a device below one is dead: that is so for a
/// moment while another drive is detached, and permanently after a program was killed.
fn make_file_system(file_system: &str, device: &str) -> Result<(), AttachError> {
    let began = Instant::now();
    loop {
        match run_exclusively(&format!("mkfs.{file_system}"), &[device]) {
            Ok(_) => return Ok(()),
            Err(AttachError::System(message)) if message.contains(ENOTCONN_MESSAGE) => {
                let patience = if stale_loop_devices().is_empty() { TIMEOUT } else { TIMEOUT / 5 };
                if began.elapsed() > patience {
                    return Err(AttachError::System(format!(
                        "{message}\n{}",
                        stale_device_advice()
                    )));
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The system's message for a file whose FUSE server has ended (ENOTCONN).
const ENOTCONN_MESSAGE: &str = "Transport endpoint is not connected";

/// Returns advice on removing loop devices whose file is dead.
fn stale_device_advice() -> String {
    let dead = stale_loop_devices();
    if dead.is_empty() {
        return "another mount or loop device of this system is stale (its process died); run \
                `ssdlab detach IMAGE` to clean up"
            .to_owned();
    }
    let names: Vec<String> =
        dead.iter().map(|(device, file)| format!("{device} (on {file})")).collect();
    format!(
        "{} is stale (its process died); run `ssdlab detach {}` to clean up",
        names.join(", "),
        dead[0].0
    )
}

/// Returns loop devices whose file cannot be reached any more, with the file.
fn stale_loop_devices() -> Vec<(String, String)> {
    let names = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let of_loops = names.filter_map(|entry| {
        let device = format!("/dev/{}", entry.file_name().to_string_lossy());
        let file = backing_file(&device)?.trim_end().to_owned();
        is_stale(Path::new(&file)).then_some((device, file))
    });
    of_loops.collect()
}

/// Lifts the limit on discards, which a former user may have left: it stays with the number of a loop device.
fn allow_discard(device: &str) {
    let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
    if let Ok(most) = std::fs::read_to_string(format!("{queue}/discard_max_hw_bytes")) {
        // If the limit stays, the device has no discard, and the system reports that.
        let _ = std::fs::write(format!("{queue}/discard_max_bytes"), most);
    }
}

/// Returns the file of a loop device; `None` if it has none.
pub fn backing_file(device: &str) -> Option<String> {
    let name = device.strip_prefix("/dev/")?;
    std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn who_has_the_device_for_a_moment_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (file, point) = (directory.path().join("file"), directory.path().join("point"));
        std::fs::create_dir(&point).unwrap();
        std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        let mut device = match LoopDevice::attach(&file, false) {
            Ok(device) => device,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "\nSKIPPED: a busy loop device: {error}");
                return;
            }
        };
        for is_blank in [true, false] {
            let claim = users::claim(device.path()).unwrap().expect("nobody else has it");
            let owner = std::thread::spawn(move || {
                std::thread::sleep(BUSY_RETRY_MAX / 4);
                drop(claim);
            });
            let mounted = device.mount(&point, "ext4", is_blank);
            owner.join().unwrap();
            let detached = unmount(&point.to_string_lossy(), Instant::now() + TIMEOUT);
            assert!(mounted.is_ok() && detached.is_ok(), "{mounted:?}, {detached:?}");
            device.mounted = None;
        }
        device.detach(Instant::now() + TIMEOUT).unwrap();
    }
}
