//! The header of an image: the profile and shape of its drive. It is written once, in two copies, when the
//! image is made.

use std::io;
use std::path::Path;

use ssdlab_model::Configuration;
use ssdlab_model::profile::Profile;

use super::host::HostFile;
use super::layout::{HEADER_MAX, Layout};
use crate::error::AttachError;

const MAGIC: [u8; 8] = *b"SSDLABIM";

/// Version of the format. Any change of the layout needs a new one.
const VERSION: u32 = 2;

/// Count of numbers in the header: eight of the drive's shape and the seed. They repeat what follows from the
/// profile, so that a version that derives another shape from it does not misread the image.
const NUMBERS: usize = 9;

/// Index of the seed of the drive's random choices.
const SEED: usize = 8;

/// The header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    numbers: [u64; NUMBERS],
    name: String,
    text: String,
    changes: Vec<(String, String)>,
}

fn numbers(configuration: &Configuration, layout: &Layout) -> [u64; NUMBERS] {
    [
        layout.unit,
        layout.units_per_program.into(),
        layout.programs_per_block.into(),
        layout.stripe.into(),
        layout.blocks.into(),
        configuration.geometry.logical_units().into(),
        layout.data,
        layout.end,
        configuration.mechanisms.seed,
    ]
}

/// Returns true if the first or second copy of the header begins as an image of any version does.
pub(super) fn begins_image(file: &std::fs::File) -> bool {
    [0, HEADER_MAX].into_iter().any(|at| {
        let mut magic = [0; MAGIC.len()];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut magic, at).is_ok() && magic == MAGIC
    })
}

/// A header found in an image.
pub(super) struct FoundHeader {
    pub(super) header: Header,
    /// Place of the damaged copy; `None` if both are intact.
    pub(super) damaged: Option<u64>,
}

impl Header {
    pub(super) fn new(profile: &Profile, configuration: &Configuration, layout: &Layout) -> Header {
        Header {
            numbers: numbers(configuration, layout),
            name: profile.name().to_owned(),
            text: profile.text().to_owned(),
            changes: profile.changes().to_vec(),
        }
    }

    /// Writes the copy at offset `at`.
    ///
    /// # Errors
    /// Returns an error if writing fails, or if the profile is too long for a header.
    pub(super) fn write(&self, file: &HostFile, at: u64) -> io::Result<()> {
        file.write_all_at(&self.encode()?, at)
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 4]);
        for number in self.numbers {
            bytes.extend(number.to_le_bytes());
        }
        let mut text = |text: &str| {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        text(&self.name);
        text(&self.text);
        for (key, value) in &self.changes {
            text(key);
            text(value);
        }
        let (length, changes) = (bytes.len() as u32, self.changes.len() as u32);
        if u64::from(length) + 12 > HEADER_MAX {
            return Err(io::Error::other("the profile is longer than the header of an image"));
        }
        // The length of all this goes to the front; the number of changes follows here, then the checksum.
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes.extend(changes.to_le_bytes());
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        Ok(bytes)
    }

    /// Reads both copies, and returns the header of the first intact one.
    ///
    /// # Errors
    /// Returns an error if neither copy is intact, or the image is of another version.
    pub(super) fn read(file: &HostFile, path: &Path) -> Result<FoundHeader, AttachError> {
        let mut copies = Vec::new();
        for at in [0, HEADER_MAX] {
            let mut bytes = vec![0; HEADER_MAX as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], at + filled as u64) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) => return Err(AttachError::io("read", path, error)),
                }
            }
            bytes.truncate(filled);
            copies.push((at, Header::decode(&bytes), bytes));
        }
        let damaged = copies.iter().find(|(_, header, _)| header.is_none()).map(|&(at, ..)| at);
        if let Some(header) = copies.iter().find_map(|(_, header, _)| header.clone()) {
            return Ok(FoundHeader { header, damaged });
        }
        let wrong = |what: &str| AttachError::image(path, what);
        let Some((.., bytes)) = copies.iter().find(|(.., bytes)| bytes.starts_with(&MAGIC)) else {
            return Err(wrong(
                "this is not the image of a drive; ssdlab create makes one (a drive saved by \
                 ssdlab precondition is not an image)",
            ));
        };
        let version = word(bytes, 8);
        if version != VERSION {
            return Err(wrong(&format!(
                "the image is of version {version}, and this ssdlab reads version {VERSION}: attach it with the \
                 ssdlab that made it, and copy what is on it to a drive that this one creates"
            )));
        }
        Err(wrong("both copies of its header are damaged: the checksums are wrong"))
    }

    /// Decodes a copy of this version; `None` if its checksum does not match.
    fn decode(bytes: &[u8]) -> Option<Header> {
        if !bytes.starts_with(&MAGIC) || word(bytes, 8) != VERSION {
            return None;
        }
        let length = word(bytes, 12) as usize;
        let covered = bytes.get(..length.checked_add(4)?)?;
        bytes.get(length + 4..length + 8)?;
        if crc32fast::hash(covered) != word(bytes, length + 4) {
            return None;
        }
        Header::decode_fields(covered, length)
    }

    fn decode_fields(bytes: &[u8], length: usize) -> Option<Header> {
        let mut numbers = [0; NUMBERS];
        for (index, number) in numbers.iter_mut().enumerate() {
            let at = 16 + 8 * index;
            *number = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
        }
        let mut at = 16 + 8 * NUMBERS;
        let mut text = || {
            let long = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
            let text = std::str::from_utf8(bytes.get(at + 4..at + 4 + long)?).ok()?;
            at += 4 + long;
            Some(text.to_owned())
        };
        let (name, profile) = (text()?, text()?);
        let count = u32::from_le_bytes(bytes.get(length..length + 4)?.try_into().ok()?);
        let mut changes = Vec::new();
        for _ in 0..count {
            changes.push((text()?, text()?));
        }
        Some(Header { numbers, name, text: profile, changes })
    }

    /// Returns the profile in the header.
    pub(super) fn profile(&self, path: &Path) -> Result<Profile, AttachError> {
        let origin = format!("{}, the profile in it", path.display());
        let mut profile = Profile::parse(&self.name, &origin, &self.text)?;
        for (key, value) in &self.changes {
            profile.set(key, value)?;
        }
        profile.set_seed(self.numbers[SEED]);
        profile.check()?;
        Ok(profile)
    }

    /// Returns an error if the drive of the profile has not the shape and seed in the header.
    pub(super) fn check(
        &self,
        configuration: &Configuration,
        layout: &Layout,
        path: &Path,
    ) -> Result<(), AttachError> {
        if self.numbers == numbers(configuration, layout) {
            return Ok(());
        }
        let what = "its profile makes a drive of another shape with this version of ssdlab";
        Err(AttachError::image(path, what))
    }
}

/// Returns the 32-bit number at `at`; 0 behind the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).map_or([0; 4], |it| [it[0], it[1], it[2], it[3]]);
    u32::from_le_bytes(bytes)
}
