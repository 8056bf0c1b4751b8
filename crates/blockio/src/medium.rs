//! Medium of a run: a file that the run creates, or a block device that the user confirmed.

use std::path::Path;

use ssdlab_drive::DriveKind;
use ssdlab_drive::phase::Region;
use ssdlab_error::{DriveError, ErrorKind};

use super::file::OwnFile;
use super::gate::OpenDevice;
use super::handle::Handle;
use super::purge;
use super::target::Target;

/// A file or a block device.
pub(super) enum Medium {
    /// A file that the run creates.
    File {
        /// Directory and name of the file.
        target: Target,
        /// The file; `None` once cleaned up.
        file: Option<OwnFile>,
    },
    /// A block device.
    Device(OpenDevice),
}

impl Medium {
    /// Returns the target of requests.
    pub(super) fn handle(&self) -> Result<&Handle, DriveError> {
        match self {
            Medium::File { .. } => Ok(&self.file()?.handle),
            Medium::Device(device) => Ok(&device.handle),
        }
    }

    /// Returns the file; an error if there is none.
    pub(super) fn file(&self) -> Result<&OwnFile, DriveError> {
        match self {
            Medium::File { file: Some(file), .. } => Ok(file),
            _ => Err(not_prepared()),
        }
    }

    /// Returns the block device, or `None`.
    pub(super) fn device(&self) -> Option<&OpenDevice> {
        match self {
            Medium::File { .. } => None,
            Medium::Device(device) => Some(device),
        }
    }

    /// Returns the path as the user gave it.
    pub(super) fn named(&self) -> &Path {
        match self {
            Medium::File { target, .. } => &target.named,
            Medium::Device(device) => &device.named,
        }
    }

    pub(super) fn kind(&self) -> DriveKind {
        match self {
            Medium::File { target, .. } => target.kind(),
            Medium::Device(_) => DriveKind::Device,
        }
    }

    /// Trims a region: discards it, or gives its space back to the file system.
    pub(super) fn trim(&self, region: Region) -> Result<(), DriveError> {
        match self {
            Medium::Device(device) => purge::discard(device, region),
            Medium::File { .. } => self.file()?.punch_hole(region),
        }
    }

    /// Returns an error if the medium may not be written to.
    pub(super) fn check_writable(&self) -> Result<(), DriveError> {
        self.device().map_or(Ok(()), OpenDevice::check_writable)
    }
}

/// Returns the error for the use of a drive before it is prepared or after it is cleaned up.
pub(super) fn not_prepared() -> DriveError {
    DriveError::new(ErrorKind::Usage, "the drive was not prepared, or is cleaned up already")
}
