//! Saved drives: the state of a simulated SSD in a file, with the profile that it was made of.
//!
//! A file is recognised by its first bytes, contains the version of its format, and ends with a checksum
//! over all before it. It is written under another name in the same directory, made durable and only then
//! renamed, so that there is never a partial file. All numbers are little-endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `SSDLABSS` |
//! | 4 | version, 4 |
//! | 8 | the drive's clock, in nanoseconds |
//! | 8 | the seed of its own random choices |
//! | 4 + n each | the drive's name, how it came to its state, the profile's name and text |
//! | 4, then 4 + n twice each | changes of the profile: how many, keys and values |
//! | 4 a unit, each from a multiple of 4,096 on | the map and the reverse map; what is zero is a hole |
//! | - | the rest of the state ([`ssdlab_model::snapshot`]), which says where those two are |
//! | 8 | where that begins |
//! | 4 | CRC-32 |
//!
//! The two tables are not read but mapped, copy on write, so that a drive of 4 TiB is loaded as fast as one
//! of 4 GiB. To check them they would have to be read. So they are checked once: a file that was found
//! sound, or was written here, is marked so, with its length, its inode and the time at which it was last
//! written (`saved/verified_state.rs`). It is read and checked again when one of these has changed.
//!
//! In version 3, which is still read, the map is part of the rest of the state, and the reverse map is
//! computed.

mod tables;
mod verified_state;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;
use ssdlab_model::Configuration;
use ssdlab_model::profile::Profile;
use ssdlab_model::snapshot::{Decoder, Encoder, SnapshotError};
use ssdlab_units::Instant;

use tables::{ChecksummedFile, MappedTables};
use verified_state::VerifiedState;

use super::SimulatedDrive;
use super::model::{Model, restored_model};
use crate::error::{DriveError, ErrorKind};

const MAGIC: [u8; 8] = *b"SSDLABSS";

/// Version of the format that is written. Any change of the format needs a new version.
const VERSION: u32 = 4;

/// Oldest version that is read: its state contains the map, and no reverse map.
const OLDEST: u32 = 3;

/// Maximum length of a text in a file, and maximum number of changes of a profile.
const TEXT_MAX: u32 = 1 << 20;

const CHECKSUM_BYTES: u64 = 4;

/// Bytes of the number that states where the state begins, from version 4 on.
const BEGIN_BYTES: u64 = 8;

/// A saved drive that was opened: its checksum is right and its profile sound.
#[derive(Clone, Debug)]
pub struct SavedDrive {
    path: PathBuf,
    name: String,
    history: String,
    profile: Profile,
    configuration: Box<Configuration>,
    clock: Instant,
    file: Arc<File>,
    version: u32,
    /// The state of the file before it was checked.
    file_state: Option<VerifiedState>,
    /// True if the whole file is known to be as it was written.
    is_verified: bool,
    /// Range of bytes in the file that holds the state.
    state: std::ops::Range<u64>,
}

/// Returns true if the file at `path` begins as saved drives do.
pub fn is_saved(path: &Path) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    match File::open(path)?.read_exact(&mut magic) {
        Ok(()) => Ok(magic == MAGIC),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Shuts `drive` down and saves it at `path`. `profile` is the profile that the drive was made of, and
/// `history` describes how it came to its state. An existing file is replaced only if `replace` is true and
/// the file is a saved drive or empty, and then as a whole.
/// and then as a whole.
///
/// Returns an error if an existing file must stay, if the drive cannot be saved, or if writing fails; the
/// file system is then as before.
pub fn save(
    drive: &mut SimulatedDrive,
    profile: &Profile,
    history: &str,
    path: &Path,
    replace: bool,
) -> Result<(), DriveError> {
    refuse_existing(path, replace)?;
    // If `path` is a symbolic link, its target is replaced, and the link stays.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    drive.now = drive.model.shut_down(drive.now);
    let draft = draft_beside(&place);
    let outcome = write_draft(drive, profile, history, &draft, path)
        .and_then(|()| move_into_place(&draft, &place, replace));
    if outcome.is_err() {
        // The unfinished file is of no use. If removing it fails too, the first error is the one to report.
        let _ = fs::remove_file(&draft);
    }
    outcome
}

/// Returns an error if there is an existing file that may not be replaced, or if there is no directory.
///
/// # Errors
/// Returns [`ErrorKind::Refused`] or [`ErrorKind::Usage`].
pub fn refuse_existing(path: &Path, replace: bool) -> Result<(), DriveError> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|it| !it.is_dir()) {
        let (shown, directory) = (path.display(), directory.display());
        let message = format!("{shown} cannot be saved: there is no directory {directory}");
        return Err(DriveError::new(ErrorKind::Usage, message));
    }
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let shown = path.display();
    // A device is not opened: opening it may already have an effect.
    let found = path.metadata().ok().filter(|it| it.is_file());
    let may_go = found.is_some_and(|it| it.len() == 0 || is_saved(path).unwrap_or(false));
    let message = match (replace, may_go) {
        (true, true) => return Ok(()),
        (true, false) => format!(
            "{shown} is no saved drive, and is not replaced, even with --force; name a new file"
        ),
        (false, _) => format!("{shown} exists; name a new file, or say --force to replace it"),
    };
    Err(DriveError::new(ErrorKind::Refused, message))
}

fn io_error(
    what: &str,
    path: &Path,
    error: impl std::error::Error + Send + Sync + 'static,
) -> DriveError {
    DriveError::with_source(ErrorKind::Io, format!("cannot {what} {}", path.display()), error)
}

fn draft_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.draft", std::process::id()))
}

fn write_draft(
    drive: &SimulatedDrive,
    profile: &Profile,
    history: &str,
    draft: &Path,
    path: &Path,
) -> Result<(), DriveError> {
    // Errors name the final file, not the draft, which is gone when the message is read.
    let cannot = |error| io_error("write", path, error);
    let file = OpenOptions::new().write(true).create_new(true).open(draft).map_err(cannot)?;
    let mut out = ChecksummedFile::new(file);
    write_header(&mut out, VERSION, drive, profile, history).map_err(cannot)?;
    let mut state = Vec::new();
    let mut to = Encoder::with_tables_apart(&mut state, &mut out);
    drive.model.save(&mut to).map_err(|error| match error {
        SnapshotError::Io(error) => cannot(error),
        error => DriveError::with_source(ErrorKind::Unsupported, drive.name.clone(), error),
    })?;
    let begin = out.position();
    out.write_all(&state).map_err(cannot)?;
    out.write_all(&begin.to_le_bytes()).map_err(cannot)?;
    let file = out.finish().map_err(cannot)?;
    file.sync_all().map_err(cannot)?;
    if let (Some(file_state), Ok(configuration)) =
        (VerifiedState::of(&file), profile.configuration())
    {
        file_state.mark(&file, geometry_checksum(&configuration));
    }
    Ok(())
}

/// Returns a number that distinguishes drives of different shapes, whose tables differ in length.
fn geometry_checksum(configuration: &Configuration) -> u32 {
    crc32fast::hash(format!("{:?}", configuration.geometry.parameters()).as_bytes())
}

fn write_header(
    out: &mut impl Write,
    version: u32,
    drive: &SimulatedDrive,
    profile: &Profile,
    history: &str,
) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&version.to_le_bytes())?;
    out.write_all(&drive.now.nanos().to_le_bytes())?;
    out.write_all(&profile.seed().to_le_bytes())?;
    for text in [&drive.name, history, profile.name(), profile.text()] {
        write_text(out, text)?;
    }
    out.write_all(&(profile.changes().len() as u32).to_le_bytes())?;
    for (key, value) in profile.changes() {
        write_text(out, key)?;
        write_text(out, value)?;
    }
    Ok(())
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    if text.len() > TEXT_MAX as usize {
        return Err(io::Error::other("a text is too long for the file of a saved drive"));
    }
    out.write_all(&(text.len() as u32).to_le_bytes())?;
    out.write_all(text.as_bytes())
}

/// Gives the finished draft its final name, durably.
fn move_into_place(draft: &Path, path: &Path, replace: bool) -> Result<(), DriveError> {
    let cannot = |error| io_error("create", path, error);
    if replace {
        fs::rename(draft, path).map_err(cannot)?;
    } else {
        // Unlike renaming, linking fails where a file has appeared meanwhile.
        fs::hard_link(draft, path).map_err(cannot)?;
        fs::remove_file(draft).map_err(cannot)?;
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(cannot)
}

impl SavedDrive {
    /// Opens the saved drive at `path`. The whole file is read to check it, unless it is known to be sound.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a saved drive, is of another version, or is
    /// damaged.
    pub fn open(path: &Path) -> Result<SavedDrive, DriveError> {
        let wrong =
            |what: String| DriveError::new(ErrorKind::Usage, format!("{}: {what}", path.display()));
        let cannot = |error| io_error("read", path, error);
        let file = File::open(path).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        let file = Arc::new(file);
        let file_state = VerifiedState::of(&file);
        let mut from = CountingReader { inner: BufReader::new(&*file), count: 0 };
        let early = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong("the file ends too early".to_owned()),
            _ => cannot(error),
        };
        if read_bytes(&mut from).map_err(early)? != MAGIC {
            return Err(wrong(
                "this is not a saved drive of ssdlab precondition (an image for ssdlab attach has \
                 another format)"
                    .to_owned(),
            ));
        }
        let version = read_u32(&mut from).map_err(early)?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(wrong(format!(
                "the drive was saved in format {version}, and this ssdlab reads formats {OLDEST} \
                 to {VERSION}; make it again with ssdlab precondition"
            )));
        }
        let is_marked = file_state.as_ref().is_some_and(|it| it.is_marked(&file));
        let is_sound = is_marked || is_checksum_right(&file, length).map_err(cannot)?;
        let damaged =
            || wrong("the file is damaged or cut short: its checksum is wrong".to_owned());
        is_sound.then_some(()).ok_or_else(damaged)?;
        let clock = u64::from_le_bytes(read_bytes(&mut from).map_err(early)?);
        let seed = u64::from_le_bytes(read_bytes(&mut from).map_err(early)?);
        let mut text = || read_text(&mut from).map_err(early);
        let (name, history, profile_name, profile_text) = (text()?, text()?, text()?, text()?);
        let changes = read_u32(&mut from).map_err(early)?;
        let origin = format!("{}, the profile in it", path.display());
        let sound = |error: ssdlab_model::profile::ProfileError| wrong(error.to_string());
        let mut profile = Profile::parse(&profile_name, &origin, &profile_text).map_err(sound)?;
        for _ in 0..changes.min(TEXT_MAX) {
            let key = read_text(&mut from).map_err(early)?;
            let value = read_text(&mut from).map_err(early)?;
            profile.set(&key, &value).map_err(sound)?;
        }
        profile.set_seed(seed);
        profile.check().map_err(sound)?;
        let configuration = Box::new(profile.configuration().map_err(sound)?);
        let shape = geometry_checksum(&configuration);
        let is_verified = file_state.as_ref().is_some_and(|it| it.is_marked_for(&file, shape));
        let header = from.count;
        let state = match version {
            3 => header..length - CHECKSUM_BYTES,
            _ => {
                let end = length - CHECKSUM_BYTES - BEGIN_BYTES;
                let begin = read_bytes(&mut PositionedReader { file: &file, position: end })
                    .map_err(cannot)?;
                let begin = u64::from_le_bytes(begin);
                if !(header..=end).contains(&begin) {
                    return Err(damaged());
                }
                begin..end
            }
        };
        let clock = Instant::from_nanos(clock);
        let path = path.to_owned();
        Ok(SavedDrive {
            path,
            name,
            history,
            profile,
            configuration,
            clock,
            file,
            version,
            file_state,
            is_verified,
            state,
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name that the drive had when it was saved.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description of how the drive came to its state.
    pub fn history(&self) -> &str {
        &self.history
    }

    /// Returns the profile that the drive was made of, changes applied.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the configuration that the drive was made of.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns the drive in its saved state, and its clock.
    pub(crate) fn restore(&self) -> Result<(Box<dyn Model>, Instant), DriveError> {
        let path = &self.path;
        let length = self.state.end.saturating_sub(self.state.start);
        let file = PositionedReader { file: &self.file, position: self.state.start };
        let mut from = BufReader::with_capacity(1 << 16, file).take(length);
        let mut tables = MappedTables::of(&self.file, self.state.start, self.is_verified);
        let mut decoder = match self.version {
            3 => Decoder::new(&mut from),
            _ => Decoder::with_tables_apart(&mut from, &mut tables),
        };
        let model = restored_model(&self.configuration, &mut decoder)
            .map_err(|error| io_error("restore the drive in", path, error))?;
        if from.limit() > 0 {
            let message = format!("{}: the file has data beyond the saved state", path.display());
            return Err(DriveError::new(ErrorKind::Usage, message));
        }
        if let Some(file_state) = self.file_state.as_ref().filter(|_| !self.is_verified) {
            file_state.mark(&self.file, geometry_checksum(&self.configuration));
        }
        Ok((model, self.clock))
    }
}

/// Returns true if the last bytes of the file are the checksum of those before.
fn is_checksum_right(file: &File, length: u64) -> io::Result<bool> {
    let Some(covered) = length.checked_sub(CHECKSUM_BYTES) else { return Ok(false) };
    let mut from = PositionedReader { file, position: 0 };
    let (mut sum, mut piece) = (Hasher::new(), vec![0; 1 << 18]);
    let mut left = covered;
    while left > 0 {
        let piece = &mut piece[..left.min(1 << 18) as usize];
        from.read_exact(piece)?;
        sum.update(piece);
        left -= piece.len() as u64;
    }
    Ok(read_u32(&mut from)? == sum.finalize())
}

fn read_bytes<const LENGTH: usize>(from: &mut impl Read) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file from `place` on, independently of other readers.
struct PositionedReader<'a> {
    file: &'a File,
    position: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let count = std::os::unix::fs::FileExt::read_at(self.file, bytes, self.position)?;
        #[cfg(windows)]
        let count = std::os::windows::fs::FileExt::seek_read(self.file, bytes, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    Ok(u32::from_le_bytes(read_bytes(from)?))
}

fn read_text(from: &mut impl Read) -> io::Result<String> {
    let length = read_u32(from)?;
    if length > TEXT_MAX {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Counts the bytes that are read.
struct CountingReader<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.count += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use ssdlab_units::{ByteLength, KIB, MIB, Nanoseconds};

    use super::*;
    use crate::stack::Composition;
    use crate::{Amount, Drive, Mix, Pattern, Phase, Region, Unobserved};

    fn profile() -> Profile {
        let mut profile = Profile::named("toshiba-xg5").unwrap();
        for (key, value) in
            [("flash.pages_per_block", "6"), ("capacity.physical", "128M"), ("spare", "30%")]
        {
            profile.set(key, value).unwrap();
        }
        profile
    }

    fn phase(seed: u64, capacity: ByteLength) -> Phase {
        Phase {
            name: "test".to_owned(),
            pattern: Pattern::Random,
            block_size: KIB * 4,
            depth: 8,
            mix: Mix { read_percent: 30 },
            region: Region::first(capacity),
            amount: Amount::Bytes(MIB * 256),
            rate: None,
            seed,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    fn used() -> SimulatedDrive {
        let mut drive =
            SimulatedDrive::new("sim:used", profile().configuration().unwrap()).unwrap();
        let capacity = drive.description().capacity;
        drive.run_phase(&phase(1, capacity), &mut Unobserved).unwrap();
        drive
    }

    fn opened(path: &Path) -> SimulatedDrive {
        let saved = SavedDrive::open(path).unwrap();
        SimulatedDrive::of("again", Composition::Saved(Box::new(saved))).unwrap()
    }

    #[test]
    fn a_saved_drive_goes_on_as_if_nothing_had_happened() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("used.ssd");
        let mut drive = used();
        save(&mut drive, &profile(), "written at random", &path, false).unwrap();
        assert!(is_saved(&path).unwrap());
        let saved = SavedDrive::open(&path).unwrap();
        assert_eq!((saved.name(), saved.history()), ("sim:used", "written at random"));
        assert_eq!(saved.profile().parameters(), profile().parameters());
        let mut again = opened(&path);
        assert_eq!(again.now(), drive.now());
        let capacity = drive.description().capacity;
        let one = drive.run_phase(&phase(2, capacity), &mut Unobserved).unwrap();
        let two = again.run_phase(&phase(2, capacity), &mut Unobserved).unwrap();
        assert_eq!(one.elapsed, two.elapsed);
        let counted = |drive: &SimulatedDrive| drive.inside().map(|it| (it.counters, it.wear));
        assert_eq!(counted(&drive), counted(&again));
        again.purge().unwrap();
        assert_eq!(again.inside().unwrap().counters.host_write_units, 0, "new is new");
        let names: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "no draft is left");
    }

    #[test]
    fn what_was_saved_in_the_form_before_is_read() {
        let place = tempfile::tempdir().unwrap();
        let (old, new) = (place.path().join("old.ssd"), place.path().join("new.ssd"));
        let mut drive = used();
        save(&mut drive, &profile(), "", &new, false).unwrap();
        let mut out = ChecksummedFile::new(File::create(&old).unwrap());
        write_header(&mut out, 3, &drive, &profile(), "").unwrap();
        drive.model.save(&mut Encoder::new(&mut out)).unwrap();
        out.finish().unwrap();
        let [mut old, mut new] = [old, new].map(|path| opened(&path));
        let phase = phase(2, drive.description().capacity);
        let one = old.run_phase(&phase, &mut Unobserved).unwrap();
        let two = new.run_phase(&phase, &mut Unobserved).unwrap();
        assert_eq!((one.elapsed, old.now()), (two.elapsed, new.now()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_was_not_written_since_counts_as_sound_without_being_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("used.ssd");
        save(&mut used(), &profile(), "", &path, false).unwrap();
        let is_verified = |path: &Path| SavedDrive::open(path).unwrap().is_verified;
        assert!(is_verified(&path), "{}: no extended attributes?", place.path().display());
        let copy = place.path().join("copy.ssd");
        fs::copy(&path, &copy).unwrap();
        assert!(!is_verified(&copy));
        opened(&copy);
        assert!(is_verified(&copy), "it was checked");
        let mut bytes = fs::read(&copy).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&copy, bytes).unwrap();
        assert!(SavedDrive::open(&copy).unwrap_err().to_string().contains("damaged"));
    }

    /// The drive gets so many requests that it copies its lent tables to its own memory meanwhile.
    #[test]
    fn a_drive_whose_tables_are_lent_answers_alike_as_long_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("used.ssd");
        let mut drive = used();
        let capacity = drive.description().capacity;
        save(&mut drive, &profile(), "", &path, false).unwrap();
        let mut again = opened(&path);
        let long = Phase { amount: Amount::Bytes(MIB * 4096), ..phase(2, capacity) };
        let one = drive.run_phase(&long, &mut Unobserved).unwrap();
        let two = again.run_phase(&long, &mut Unobserved).unwrap();
        assert_eq!(one.elapsed, two.elapsed);
    }

    #[test]
    fn a_saved_drive_keeps_the_seed_of_its_own_choices() {
        let mut profile = profile();
        for (key, value) in
            [("wear.life", "20"), ("wear.life_shape", "3"), ("wear.retire_most", "0.5")]
        {
            profile.set(key, value).unwrap();
        }
        profile.set_seed(7);
        let new = |profile: &Profile| {
            SimulatedDrive::new("sim:used", profile.configuration().unwrap()).unwrap()
        };
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new.ssd");
        let mut drive = new(&profile);
        save(&mut drive, &profile, "new", &path, false).unwrap();
        let mut again = opened(&path);
        // The blocks that go bad, and their replacements, are drawn while the drive is written.
        let capacity = drive.description().capacity;
        let failed = |drive: &mut SimulatedDrive| {
            let phase = Phase { amount: Amount::Bytes(MIB * 1024), ..phase(2, capacity) };
            let _ = drive.run_phase(&phase, &mut Unobserved);
            let inside = drive.inside().unwrap();
            (inside.counters, inside.wear)
        };
        let (one, two) = (failed(&mut drive), failed(&mut again));
        assert!(one.0.failed_blocks > 3, "{}", one.0.failed_blocks);
        assert_eq!(one, two);
        profile.set_seed(8);
        assert_ne!(one, failed(&mut new(&profile)), "the seed makes a difference");
    }

    #[test]
    fn a_file_that_is_there_stays_unless_it_may_be_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("used.ssd");
        fs::write(&path, "precious").unwrap();
        let error = save(&mut used(), &profile(), "", &path, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        let error = save(&mut used(), &profile(), "", &path, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("is no saved drive"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::write(&path, "").unwrap();
        for history in ["one", "two"] {
            save(&mut used(), &profile(), history, &path, true).unwrap();
            assert_eq!(SavedDrive::open(&path).unwrap().history(), history);
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_leads_to_is_replaced_and_a_device_never() {
        let place = tempfile::tempdir().unwrap();
        let [path, link, null] = ["used.ssd", "link", "null"].map(|name| place.path().join(name));
        save(&mut used(), &profile(), "one", &path, false).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        save(&mut used(), &profile(), "two", &link, true).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(SavedDrive::open(&path).unwrap().history(), "two");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        let error = save(&mut used(), &profile(), "", &null, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(fs::symlink_metadata(&null).unwrap().is_symlink());
    }

    #[test]
    fn what_is_no_sound_saved_drive_is_refused_with_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("used.ssd");
        save(&mut used(), &profile(), "", &path, false).unwrap();
        let bytes = fs::read(&path).unwrap();
        let error = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            SavedDrive::open(&path).unwrap_err().to_string()
        };
        assert!(error(b"[flash]\ndies = 4\n").contains("not a saved drive"));
        assert!(error(&bytes[..5]).contains("ends too early"));
        for length in [13, 100, bytes.len() / 2, bytes.len() - 1] {
            assert!(error(&bytes[..length]).contains("cut short"), "{length}");
        }
        for place in (12..bytes.len()).step_by(bytes.len() / 50) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert!(error(&damaged).contains("damaged"), "byte {place}");
        }
        let mut newer = bytes.clone();
        newer[8] = 5;
        assert!(error(&newer).contains("saved in format 5, and this ssdlab reads formats 3 to 4"));
        assert!(!is_saved(&place.path().join("missing")).unwrap_or(false));
    }
    /// The author of a changed file can also compute its checksum.
    #[test]
    fn a_changed_file_with_a_right_checksum_is_refused_or_works() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("used.ssd");
        let mut drive = used();
        let capacity = drive.description().capacity;
        save(&mut drive, &profile(), "", &path, false).unwrap();
        let sound = fs::read(&path).unwrap();
        let state = SavedDrive::open(&path).unwrap().state;
        let mut generator = Pcg64Mcg::seed_from_u64(1);
        let mut opened = 0;
        for number in 0..600 {
            // The change is in the tables, behind them, or anywhere.
            let places = match number % 3 {
                0 => 0..state.start,
                1 => state.start..sound.len() as u64 - CHECKSUM_BYTES,
                _ => 0..sound.len() as u64 - CHECKSUM_BYTES,
            };
            let mut changed = sound.clone();
            for _ in 0..generator.random_range(1..=3) {
                let at = generator.random_range(places.clone()) as usize;
                changed[at] = match generator.random_range(0..4) {
                    0 => 0,
                    1 => 0xff,
                    2 => changed[at].wrapping_add(1),
                    _ => changed[at] ^ 1 << generator.random_range(0..8),
                };
            }
            let covered = changed.len() - CHECKSUM_BYTES as usize;
            let checksum = crc32fast::hash(&changed[..covered]);
            changed[covered..].copy_from_slice(&checksum.to_le_bytes());
            let path = place.path().join(format!("{number}.ssd"));
            fs::write(&path, changed).unwrap();
            let saved = SavedDrive::open(&path);
            let again = saved.ok().and_then(|saved| {
                SimulatedDrive::of("again", Composition::Saved(Box::new(saved))).ok()
            });
            if let Some(mut again) = again {
                let phase = Phase { amount: Amount::Bytes(MIB * 64), ..phase(2, capacity) };
                // A drive whose file was changed may be worn out.
                let _ = again.run_phase(&phase, &mut Unobserved);
                opened += 1;
            }
            fs::remove_file(&path).unwrap();
        }
        println!("{opened} of 600 opened");
        assert!(opened > 0, "not all of them were refused");
    }
}
