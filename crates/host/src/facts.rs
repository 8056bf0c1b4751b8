//! All that is known of a machine, asked for in one way whether it is this one or a captured one.

mod archive;
mod captured;
#[cfg(not(target_os = "linux"))]
#[path = "facts/elsewhere.rs"]
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

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// There is no such thing.
    Missing,
    /// Only root may know.
    Denied,
    /// It could not be read, or the program not be run; in words.
    Failed(String),
    /// It was not asked for when the machine was captured.
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

/// The machine as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system and its release, as `uname` has them: `Linux 6.12.41`.
    pub system: String,
    /// The release alone.
    pub release: String,
    /// The architecture.
    pub architecture: String,
    /// When it was looked at, in seconds since 1970.
    pub time: u64,
    /// True if whoever looked was root.
    pub is_root: bool,
}

impl Machine {
    /// Returns true if it runs Linux, of which alone this crate knows where it tells what.
    pub fn is_linux(&self) -> bool {
        self.system.starts_with("Linux ")
    }
}

/// What a program came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit code; nothing where a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl CommandOutput {
    /// Its data, where it printed some.
    pub fn json(&self) -> Option<Value> {
        let start = self.stdout.find(['{', '['])?;
        serde_json::from_str(&self.stdout[start..]).ok()
    }
}

/// What answers questions about a machine.
///
/// Paths are text: what is no UTF-8 in them cannot be asked for, and is not needed.
pub trait Facts {
    /// The machine as a whole.
    fn machine(&self) -> Machine;

    /// Returns what a file holds.
    fn read(&self, path: &str) -> Result<Vec<u8>, Absent>;

    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> Result<Vec<String>, Absent>;

    /// The path with all symbolic links followed.
    fn resolve(&self, path: &str) -> Result<String, Absent>;

    /// The number of the device file that a path leads to.
    fn device_number(&self, path: &str) -> Result<DeviceNumber, Absent>;

    /// When a file was changed last, in seconds since 1970.
    fn modified(&self, path: &str) -> Result<u64, Absent>;

    /// Returns what a program that only looks prints.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<CommandOutput, Absent>;

    /// The text of a small file, without blanks around it; nothing where it is empty or cannot be
    /// read.
    fn text(&self, path: &str) -> Option<String> {
        let bytes = self.read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The lines of a text that are wanted. Of a capture nothing else of that file is kept: it may hold
    /// what is nobody's business.
    fn lines_where(
        &self,
        path: &str,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, Absent> {
        let text = self.read(path)?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter(|line| is_wanted(line)).map(str::to_owned).collect())
    }

    /// Returns true if root may execute a file: whether anybody may.
    fn is_executable(&self, path: &str) -> Result<bool, Absent>;

    /// The number in a small file.
    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}
