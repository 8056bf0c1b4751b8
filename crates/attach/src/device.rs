//! A loop device on the file of the drive, and a file system on that: by the system's own tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::AttachError;
use crate::leftovers::is_dead;
use crate::users;

/// How long whoever uses the device has to let go of it, unless told otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Longest time for which `mkfs` and `mount` are tried again while somebody else has the device.
pub(crate) const MOMENT: Duration = Duration::from_secs(2);

/// How long to wait before trying again.
const SHORTLY: Duration = Duration::from_millis(200);

/// Runs a tool of the system's; returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, AttachError> {
    let output = Command::new(program)
        .args(arguments)
        // Its words are read, not only shown.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| AttachError::io("run", Path::new(program), error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let words = format!("{program} {}: {}", arguments.join(" "), said.trim());
    Err(AttachError::System(words))
}

/// Runs a tool that takes the device for itself, and runs it again while somebody else has the device. `losetup --find`
/// claims each loop device that it tries for a moment, also one in use.
fn run_alone(program: &str, arguments: &[&str]) -> Result<String, AttachError> {
    let began = Instant::now();
    loop {
        match run(program, arguments) {
            Err(AttachError::System(words)) if is_busy(&words) && began.elapsed() < MOMENT => {
                std::thread::sleep(SHORTLY);
            }
            outcome => return outcome,
        }
    }
}

/// Returns true if a tool says that somebody else has the device.
fn is_busy(words: &str) -> bool {
    ["in use by the system", "resource busy", "already mounted or mount point busy"]
        .iter()
        .any(|said| words.contains(said))
}

/// A loop device that is ours.
#[derive(Debug)]
pub struct LoopDevice {
    path: String,
    /// The file that it is on as the kernel calls it, by which we know that it is still ours.
    file: String,
    mounted: Option<PathBuf>,
    is_read_only: bool,
}

impl LoopDevice {
    /// Makes one on `file`, whose requests go past the page cache; with `is_read_only` it takes no writes.
    ///
    /// # Errors
    /// Returns an error if the system has none left, or this user may not.
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
            AttachError::System(format!("the kernel does not say what {path} is on"))
        })?;
        Ok(LoopDevice { path, file, mounted: None, is_read_only })
    }

    /// Its name, such as `/dev/loop0`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Mounts it at `directory`. A file system is made on it before, if the drive `is_blank`: if it holds
    /// nothing at all, so that nothing can be lost. What cannot be found on it may be there all the same.
    ///
    /// # Errors
    /// Returns an error if a tool of the system's fails, or the drive holds something that cannot be mounted.
    pub fn mount(
        &mut self,
        directory: &Path,
        file_system: &str,
        is_blank: bool,
    ) -> Result<(), AttachError> {
        if file_system.is_empty() || !file_system.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(AttachError::Usage(format!("'{file_system}' is no file system")));
        }
        if is_blank && self.is_read_only {
            let words = "the drive is only read and holds nothing that could be mounted";
            return Err(AttachError::System(words.to_owned()));
        }
        if is_blank {
            make_file_system(file_system, &self.path)?;
        } else {
            self.check_mountable(file_system)?;
        }
        // As the table of mounts has it, by which we know it again.
        let directory = std::fs::canonicalize(directory)
            .map_err(|error| AttachError::io("mount at", directory, error))?;
        let how = if self.is_read_only { "ro" } else { "rw" };
        run_alone("mount", &["-o", how, &self.path, &directory.to_string_lossy()])?;
        self.mounted = Some(directory);
        Ok(())
    }

    /// Fails where the drive holds something else than what can be mounted as a whole.
    fn check_mountable(&self, file_system: &str) -> Result<(), AttachError> {
        let value = |name: &str| {
            let found = run("blkid", &["-p", "-o", "value", "-s", name, &self.path]);
            found.ok().filter(|value| !value.is_empty())
        };
        if value("TYPE").is_some() {
            // Mounting says what is wrong with one that is none.
            return Ok(());
        }
        let found = match value("PTTYPE") {
            Some(table) => format!("a partition table ({table})"),
            None => "data, and no file system that blkid finds".to_owned(),
        };
        Err(AttachError::Holds { found, file_system: file_system.to_owned() })
    }

    /// Who has mounted it besides us, in words.
    pub fn other_mounts(&self) -> Option<String> {
        let ours = self.mounted.as_ref().map(|it| it.to_string_lossy().into_owned());
        let mut points = users::mount_points(&self.path);
        points.retain(|point| Some(point) != ours.as_ref());
        (!points.is_empty()).then(|| format!("it is mounted at {}", points.join(", ")))
    }

    /// Unmounts what is on it, and gives it back to the system; waits until `until` for whoever uses it.
    ///
    /// # Errors
    /// Returns an error if it stays in use. It is then still there and works, and what was written to a file
    /// system on it is on the drive.
    pub fn detach(&mut self, until: Instant) -> Result<(), AttachError> {
        if !self.is_ours() {
            return Ok(());
        }
        for point in users::mount_points(&self.path).into_iter().rev() {
            unmount(&point, until).map_err(|error| {
                // What cannot be synced will not be better off without a drive.
                let _ = run("sync", &["-f", &point]);
                self.busy(error)
            })?;
        }
        self.mounted = None;
        let cannot = |error| AttachError::io("ask for", Path::new(&self.path), error);
        let claim = loop {
            match users::claim(&self.path).map_err(cannot)? {
                Some(claim) => break claim,
                // Udev looks at what was unmounted, for a moment.
                None if Instant::now() < until => std::thread::sleep(SHORTLY),
                None => return Err(self.busy(users::names(&self.path))),
            }
        };
        self.give_back(until, Some(claim))
    }

    /// Takes it away from whoever has it: its drive has lost power, and fails all requests.
    ///
    /// # Errors
    /// Returns an error if the system keeps it.
    pub fn tear_off(&mut self, until: Instant) -> Result<(), AttachError> {
        if !self.is_ours() {
            return Ok(());
        }
        for point in users::mount_points(&self.path).into_iter().rev() {
            unmount(&point, until).map_err(|error| self.busy(error))?;
        }
        self.mounted = None;
        self.give_back(until, None)
    }

    /// Gives it back to the system although somebody has it: the kernel takes it away when the last one closes or
    /// unmounts it. Its drive ends before that, so that it fails all requests until then.
    pub(crate) fn leave(self) {
        if self.is_ours() {
            // Where this fails, too, nothing else can be done.
            let _ = run("losetup", &["--detach", &self.path]);
        }
    }

    fn give_back(&self, until: Instant, claim: Option<std::fs::File>) -> Result<(), AttachError> {
        // A drive without power fails it, and is detached all the same.
        let _ = run("blockdev", &["--flushbufs", &self.path]);
        run("losetup", &["--detach", &self.path])?;
        drop(claim);
        // The kernel lets go of it when the last who has it open closes it.
        while self.is_ours() {
            if Instant::now() > until {
                return Err(self.busy("a program has it open".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns true if it is on our file, still.
    fn is_ours(&self) -> bool {
        backing_file(&self.path).is_some_and(|file| file == self.file)
    }

    fn busy(&self, users: String) -> AttachError {
        AttachError::Busy { place: self.path.clone(), users }
    }
}

/// Unmounts what is at `point`; in words why it cannot be until then.
fn unmount(point: &str, until: Instant) -> Result<(), String> {
    loop {
        match run("umount", &[point]) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error.to_string()),
            Err(_) => std::thread::sleep(SHORTLY),
        }
    }
}

/// Makes a file system. Some tools look at everything that is mounted and fail where a device below is
/// dead, as it is for a moment while another drive is detached, and for good when a program was killed.
fn make_file_system(file_system: &str, device: &str) -> Result<(), AttachError> {
    let began = Instant::now();
    loop {
        match run_alone(&format!("mkfs.{file_system}"), &[device]) {
            Ok(_) => return Ok(()),
            Err(AttachError::System(words)) if words.contains(DEAD) => {
                let patience = if dead_devices().is_empty() { PATIENCE } else { PATIENCE / 5 };
                if began.elapsed() > patience {
                    return Err(AttachError::System(format!("{words}\n{}", way_out())));
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            Err(error) => return Err(error),
        }
    }
}

/// What the system says of a file whose FUSE daemon has gone.
const DEAD: &str = "Transport endpoint is not connected";

/// Returns how to get rid of loop devices whose file is dead.
fn way_out() -> String {
    let dead = dead_devices();
    if dead.is_empty() {
        return "another mount or loop device of this system is dead; `ssdlab detach IMAGE` removes \
                what a drive has left whose program was killed"
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

/// Loop devices whose file cannot be reached any more, with that.
fn dead_devices() -> Vec<(String, String)> {
    let names = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let of_loops = names.filter_map(|entry| {
        let device = format!("/dev/{}", entry.file_name().to_string_lossy());
        let file = backing_file(&device)?.trim_end().to_owned();
        is_dead(Path::new(&file)).then_some((device, file))
    });
    of_loops.collect()
}

/// Takes away the limit on discards that somebody else may have left: it stays with the number of a
/// loop device.
fn allow_discard(device: &str) {
    let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
    if let Ok(most) = std::fs::read_to_string(format!("{queue}/discard_max_hw_bytes")) {
        // Where it stays, the device has no discard, and the system says so.
        let _ = std::fs::write(format!("{queue}/discard_max_bytes"), most);
    }
}

/// Returns what a loop device is on, if it is on something.
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
                std::thread::sleep(MOMENT / 4);
                drop(claim);
            });
            let mounted = device.mount(&point, "ext4", is_blank);
            owner.join().unwrap();
            let detached = unmount(&point.to_string_lossy(), Instant::now() + PATIENCE);
            assert!(mounted.is_ok() && detached.is_ok(), "{mounted:?}, {detached:?}");
            device.mounted = None;
        }
        device.detach(Instant::now() + PATIENCE).unwrap();
    }
}
