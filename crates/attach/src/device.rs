//! A loop device on the file of the drive, and a file system on that: by the system's own tools.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::AttachError;

/// How long whoever uses the device has to let go of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a tool of the system's; returns what it printed.
fn run(program: &str, arguments: &[&str]) -> Result<String, AttachError> {
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

/// A loop device that is ours.
#[derive(Debug)]
pub struct LoopDevice {
    path: String,
    mounted: Option<PathBuf>,
}

impl LoopDevice {
    /// Makes one on `file`, whose requests go past the page cache.
    ///
    /// # Errors
    /// When the system has none left, or this user may not.
    pub fn attach(file: &Path) -> Result<LoopDevice, AttachError> {
        if !rustix::process::geteuid().is_root() {
            return Err(AttachError::System(
                "a block device needs root; --file DIR gives a file, --nbd ADDRESS a server"
                    .to_owned(),
            ));
        }
        let file = file.to_string_lossy().into_owned();
        let path = run("losetup", &["--find", "--show", "--direct-io=on", &file])?;
        allow_discard(&path);
        Ok(LoopDevice { path, mounted: None })
    }

    /// Its name, such as `/dev/loop0`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Mounts it at `directory`; a file system is made on it before, if there is none.
    ///
    /// # Errors
    /// When a tool of the system's fails.
    pub fn mount(&mut self, directory: &Path, file_system: &str) -> Result<(), AttachError> {
        if !file_system.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(AttachError::Usage(format!("'{file_system}' is no file system")));
        }
        let found = run("blkid", &["-p", "-o", "value", "-s", "TYPE", &self.path]);
        if found.unwrap_or_default().is_empty() {
            make_file_system(file_system, &self.path)?;
        }
        let place = directory.to_string_lossy().into_owned();
        run("mount", &[&self.path, &place])?;
        self.mounted = Some(directory.to_owned());
        Ok(())
    }

    /// Where it is mounted, as the system sees it.
    fn mount_points(&self) -> Vec<String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let of_ours = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ');
            (words.next() == Some(self.path.as_str()))
                .then(|| words.next().unwrap_or("").to_owned())
        });
        of_ours.collect()
    }

    /// Whether somebody else than we has mounted it.
    pub fn is_used_by_others(&self) -> bool {
        let ours = self.mounted.as_ref().map(|it| it.to_string_lossy().into_owned());
        self.mount_points().iter().any(|point| Some(point) != ours.as_ref())
    }

    /// Unmounts what is on it, and gives it back to the system.
    ///
    /// # Errors
    /// When it stays in use; it is then still there.
    pub fn detach(&mut self) -> Result<(), AttachError> {
        let until = Instant::now() + PATIENCE;
        for point in self.mount_points().into_iter().rev() {
            loop {
                match run("umount", &[&unescaped(&point)]) {
                    Ok(_) => break,
                    Err(error) if Instant::now() > until => return Err(error),
                    Err(_) => std::thread::sleep(Duration::from_millis(200)),
                }
            }
        }
        self.mounted = None;
        // A drive without power fails it, and is detached all the same.
        let _ = run("blockdev", &["--flushbufs", &self.path]);
        run("losetup", &["--detach", &self.path])?;
        // The kernel lets go of it when the last who has it open closes it.
        while backing_file(&self.path).is_some() {
            if Instant::now() > until {
                return Err(AttachError::System(format!("{} stays in use", self.path)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Makes a file system. Some tools look at everything that is mounted and fail where a device below is
/// dead, as it is for a moment while another drive is detached, and for good when a program was killed.
fn make_file_system(file_system: &str, device: &str) -> Result<(), AttachError> {
    let began = Instant::now();
    loop {
        match run(&format!("mkfs.{file_system}"), &[device]) {
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

/// How to get rid of loop devices whose file is dead.
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
        "dead is {}: `ssdlab detach {}` removes what a drive has left whose program was killed",
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
        let is_dead = std::fs::metadata(&file)
            .is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
        is_dead.then_some((device, file))
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

/// What a loop device is on, if it is on something.
pub fn backing_file(device: &str) -> Option<String> {
    let name = device.strip_prefix("/dev/")?;
    std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()
}

/// Mount tables write blanks and the like in octal.
fn unescaped(point: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = point.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'\\')
            .then(|| tail.get(..3).and_then(|it| std::str::from_utf8(it).ok()))
            .flatten()
            .and_then(|it| u8::from_str_radix(it, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Removes what a program left that was killed: the loop device and the mounted file below it.
///
/// # Errors
/// When something is still in use.
pub fn clean_up(device: Option<&str>, directory: Option<&Path>) -> Result<(), AttachError> {
    if let (Some(device), Some(directory)) = (device, directory) {
        let is_ours =
            backing_file(device).is_some_and(|file| Path::new(file.trim()).starts_with(directory));
        if is_ours {
            let path = device.to_owned();
            let device = LoopDevice { path, mounted: None };
            for point in device.mount_points().into_iter().rev() {
                run("umount", &[&unescaped(&point)])?;
            }
            run("losetup", &["--detach", &device.path])?;
        }
    }
    if let Some(directory) = directory {
        unmount_dead(directory).map_err(|error| AttachError::io("clean up", directory, error))?;
    }
    Ok(())
}

fn unmount_dead(directory: &Path) -> io::Result<()> {
    match rustix::mount::unmount(directory, rustix::mount::UnmountFlags::DETACH) {
        // It was not mounted any more, or is gone.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_tables_are_read_as_they_are_written() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescaped("/a\\9"), "/a\\9");
    }
}
