//! Facts of the machine that runs this program.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};

use ssdlab_blockdev::{DeviceNumber, tool};

use super::{Absent, CommandOutput, Facts, Machine};

/// Largest number of bytes read of a file; all files that are needed are shorter.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Machine that runs this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl Facts for Live {
    fn machine(&self) -> Machine {
        let name = rustix::system::uname();
        let text_of = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Machine {
            system: format!("{} {}", text_of(name.sysname()), text_of(name.release())),
            release: text_of(name.release()),
            architecture: text_of(name.machine()),
            time: time.as_secs(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Absent> {
        // Opening a pipe without a writer would block.
        let found = fs::metadata(path).map_err(|error| Absent::of(&error))?;
        if !found.is_file() {
            return Err(Absent::Failed("not a plain file".to_owned()));
        }
        let file = fs::File::open(path).map_err(|error| Absent::of(&error))?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_SIZE).read_to_end(&mut bytes).map_err(|error| Absent::of(&error))?;
        Ok(bytes)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Absent> {
        let entries = fs::read_dir(path).map_err(|error| Absent::of(&error))?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn resolve(&self, path: &str) -> Result<String, Absent> {
        let found = fs::canonicalize(path).map_err(|error| Absent::of(&error))?;
        found.into_os_string().into_string().map_err(|_| Absent::Failed("no UTF-8".to_owned()))
    }

    fn device_number(&self, path: &str) -> Result<DeviceNumber, Absent> {
        let found = fs::metadata(path).map_err(|error| Absent::of(&error))?;
        let kind = found.file_type();
        if kind.is_char_device() {
            return Err(Absent::Failed("a character device, not a block device".to_owned()));
        }
        match kind.is_block_device() {
            true => Ok(DeviceNumber::from_raw(found.rdev())),
            false => Err(Absent::Missing),
        }
    }

    fn modified(&self, path: &str) -> Result<u64, Absent> {
        let found = fs::metadata(path).map_err(|error| Absent::of(&error))?;
        u64::try_from(found.mtime()).map_err(|_| Absent::Failed("before 1970".to_owned()))
    }

    fn is_executable(&self, path: &str) -> Result<bool, Absent> {
        let found = fs::metadata(path).map_err(|error| Absent::of(&error))?;
        Ok(found.mode() & 0o111 != 0)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<CommandOutput, Absent> {
        let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        let output = tool::run(program, &arguments, Some(tool::LOOK)).map_err(|why| {
            match why.ends_with("is not installed") {
                true => Absent::Missing,
                false => Absent::Failed(why),
            }
        })?;
        Ok(CommandOutput {
            status: output.status.code(),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_from_what_cannot_be_read() {
        assert_eq!(Live.read("/no/such/file"), Err(Absent::Missing));
        assert!(matches!(Live.read("/dev/null"), Err(Absent::Failed(_))));
        assert!(matches!(Live.device_number("/dev/null"), Err(Absent::Failed(_))));
        assert_eq!(Live.device_number("/proc/version"), Err(Absent::Missing));
        assert_eq!(Live.run("ssdlab-no-such-program", &[]), Err(Absent::Missing));
        assert_eq!(Live.resolve("/proc/../proc/./version").unwrap(), "/proc/version");
        assert!(Live.machine().system.starts_with("Linux "));
    }
}
