//! Facts about a machine (files, directories, device numbers, output of programs), read from this machine or from a
//! capture.

mod archive;
mod captured;
#[cfg(not(target_os = "linux"))]
#[path = "facts/unsupported.rs"]
mod live;
#[cfg(target_os = "linux")]
mod live;
mod recorder;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ssdlab_blockdev::DeviceNumber;

pub use self::captured::Captured;
pub use self::live::Live;
pub use self::recorder::Recorder;

/// Reason why a fact is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// The file or program does not exist.
    Missing,
    /// Only root may read it.
    Denied,
    /// The file could not be read, or the program could not be run; in words.
    Failed(String),
    /// The machine's capture does not contain the fact.
    NotCaptured,
}

#[cfg(target_os = "linux")]
impl Absent {
    pub(crate) fn of(error: &std::io::Error) -> Absent {
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Absent::Missing,
            std::io::ErrorKind::PermissionDenied => Absent::Denied,
            _ => Absent::Failed(error.to_string()),
        }
    }
}

/// System, architecture, time of the examination, and user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system and its release, as `uname` has them: `Linux 6.12.41`.
    pub system: String,
    /// Release alone.
    pub release: String,
    /// Processor architecture.
    pub architecture: String,
    /// Time of the examination or capture, in seconds since 1970.
    pub time: u64,
    /// True if root examined the machine.
    pub is_root: bool,
}

impl Machine {
    /// Returns true if the machine runs Linux, the only system that this crate can examine.
    pub fn is_linux(&self) -> bool {
        self.system.starts_with("Linux ")
    }
}

/// Exit code and output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended the program.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Returns the JSON in the standard output, from the first brace or bracket on; `None` if there is none.
    pub fn json(&self) -> Option<Value> {
        let start = self.stdout.find(['{', '['])?;
        serde_json::from_str(&self.stdout[start..]).ok()
    }
}

/// Source of facts about a machine: the live machine or a capture.
///
/// Paths are text: paths that are not UTF-8 cannot be read, and are not needed.
pub trait Facts {
    /// Returns facts about the machine as a whole.
    fn machine(&self) -> Machine;

    /// Returns the content of a file.
    fn read(&self, path: &str) -> Result<Vec<u8>, Absent>;

    /// Returns the names in a directory, sorted.
    fn list(&self, path: &str) -> Result<Vec<String>, Absent>;

    /// Returns the path with all symbolic links followed.
    fn resolve(&self, path: &str) -> Result<String, Absent>;

    /// Returns the number of the device file that a path leads to.
    fn device_number(&self, path: &str) -> Result<DeviceNumber, Absent>;

    /// Returns the time of a file's last change, in seconds since 1970.
    fn modified(&self, path: &str) -> Result<u64, Absent>;

    /// Runs a program that only reads, and returns its output.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<CommandOutput, Absent>;

    /// Returns the text of a small file without surrounding whitespace; `None` if it is empty or cannot be read.
    fn text(&self, path: &str) -> Option<String> {
        let bytes = self.read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns the lines of a file for which `is_wanted` is true. A recorder keeps only these lines of the file in a
    /// capture, because the others may be private.
    fn lines_where(
        &self,
        path: &str,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, Absent> {
        let text = self.read(path)?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter(|line| is_wanted(line)).map(str::to_owned).collect())
    }

    /// Returns true if a file is executable for root, that is, for any user.
    fn is_executable(&self, path: &str) -> Result<bool, Absent>;

    /// Returns the number in a small file.
    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}
