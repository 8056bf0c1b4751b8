//! Stub for a machine that does not run Linux: every fact is missing.

use std::time::{SystemTime, UNIX_EPOCH};

use ssdlab_blockdev::DeviceNumber;

use super::{Absent, CommandOutput, Facts, Machine};

/// Machine that runs this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl Facts for Live {
    fn machine(&self) -> Machine {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Machine {
            system: std::env::consts::OS.to_owned(),
            release: String::new(),
            architecture: std::env::consts::ARCH.to_owned(),
            time: time.as_secs(),
            is_root: false,
        }
    }

    fn read(&self, _: &str) -> Result<Vec<u8>, Absent> {
        Err(Absent::Missing)
    }

    fn list(&self, _: &str) -> Result<Vec<String>, Absent> {
        Err(Absent::Missing)
    }

    fn resolve(&self, _: &str) -> Result<String, Absent> {
        Err(Absent::Missing)
    }

    fn device_number(&self, _: &str) -> Result<DeviceNumber, Absent> {
        Err(Absent::Missing)
    }

    fn modified(&self, _: &str) -> Result<u64, Absent> {
        Err(Absent::Missing)
    }

    fn is_executable(&self, _: &str) -> Result<bool, Absent> {
        Err(Absent::Missing)
    }

    fn run(&self, _: &str, _: &[&str]) -> Result<CommandOutput, Absent> {
        Err(Absent::Missing)
    }
}
