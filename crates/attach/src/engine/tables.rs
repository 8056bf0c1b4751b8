//! The drive's tables, saved in the image when the drive is closed in order, so that it opens quickly.
//!
//! The tables hold nothing that the flash does not. If they are damaged, of another format or refused by the
//! model, the drive recovers from its flash.

use std::io::{self, BufReader, BufWriter, Read, Write};

use super::Inner;
use crate::drive::{self, Model};
use crate::image::Image;
use crate::image::host::HostFile;
use crate::store::Store;

/// Opens the drive with the tables in `image`, and with `store` as its flash. Returns the reason as text if the
/// tables cannot be used.
///
/// # Errors
/// Returns an error if the image cannot be read.
pub(crate) fn restore(image: &Image, store: Store) -> io::Result<Result<Box<dyn Model>, String>> {
    let Some(tables) = read_tables(image)? else {
        return Ok(Err(
            "they are damaged, or another version of this program saved them".to_owned()
        ));
    };
    let restored = drive::restore(image.configuration(), store, &mut tables.as_slice());
    Ok(restored.map_err(|error| error.to_string()))
}

impl Inner {
    /// Writes the drive's tables. Returns their length and checksum; `None` if a drive of this kind cannot save
    /// them.
    pub(super) fn write_tables(&mut self) -> io::Result<Option<(u64, u32)>> {
        let store = self.model.store();
        let layout = store.image().layout().clone();
        let file = store.file().clone();
        file.punch(layout.checkpoint, layout.checkpoint_size)?;
        let region = Region { file: &file, at: layout.checkpoint, left: layout.checkpoint_size };
        let mut out = ChecksumWriter {
            inner: BufWriter::with_capacity(1 << 18, region),
            sum: sum_of_tables(&[]),
            length: 0,
        };
        match self.model.save(&mut out) {
            Ok(()) => {}
            Err(ssdlab_model::snapshot::SnapshotError::Io(error)) => return Err(error),
            Err(_) => return Ok(None),
        }
        out.inner.flush()?;
        Ok(Some((out.length, out.sum.finalize())))
    }
}

/// Version of the tables' format: any change of what the model saves needs a new one.
const TABLES_VERSION: u32 = 2;

/// Returns the checksum of tables. It begins with the format version, so that tables of another version do not
/// match and the drive recovers from its flash.
fn sum_of_tables(tables: &[u8]) -> crc32fast::Hasher {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&TABLES_VERSION.to_le_bytes());
    sum.update(tables);
    sum
}

/// Reads the drive's tables; `None` if their checksum does not match.
fn read_tables(image: &Image) -> io::Result<Option<Vec<u8>>> {
    let (layout, state) = (image.layout(), image.state());
    if state.checkpoint_length == 0 || state.checkpoint_length > layout.checkpoint_size {
        return Ok(None);
    }
    let from = Region { file: image.file(), at: layout.checkpoint, left: state.checkpoint_length };
    let mut tables = Vec::with_capacity(state.checkpoint_length as usize);
    BufReader::with_capacity(1 << 20, from).read_to_end(&mut tables)?;
    Ok((sum_of_tables(&tables).finalize() == state.checkpoint_sum).then_some(tables))
}

/// A region of a file, to be read or written from its beginning.
struct Region<'a> {
    file: &'a HostFile,
    at: u64,
    left: u64,
}

impl Read for Region<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = self.left.min(bytes.len() as u64) as usize;
        let count = self.file.read_at(&mut bytes[..most], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

impl Write for Region<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.left.min(bytes.len() as u64) as usize;
        if most == 0 && !bytes.is_empty() {
            return Err(io::Error::other("the checkpoint is longer than its region"));
        }
        let count = self.file.write_at(&bytes[..most], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that computes the checksum and length of all that is written.
struct ChecksumWriter<W> {
    inner: W,
    sum: crc32fast::Hasher,
    length: u64,
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.sum.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant as HostInstant;

    use ssdlab_model::profile::{DEFAULT, Profile};

    use super::*;
    use crate::check::{check, repair};
    use crate::engine::{Engine, Opened, Options, Outcome, Time};
    use crate::image::state::State;

    /// Returns an image in `directory` that was written, trimmed and closed in order. Its tables are then
    /// changed by `change`, with a checksum that matches.
    fn changed(directory: &std::path::Path, change: fn(&mut Vec<u8>)) -> std::path::PathBuf {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        profile.set("capacity.logical", "64M").expect("a size");
        profile.set("capacity.physical", "128M").expect("a size");
        profile.set("flash.pages_per_block", "12").expect("pages");
        let path = directory.join("disk.ssd");
        let engine = open(Image::create(&path, &profile, false).expect("an image")).0;
        let now = HostInstant::now();
        let _ = engine.write(now, 0, &[7; 1 << 20], false).expect("a write");
        let _ = engine.write(now, 1 << 19, &[8; 1 << 19], false).expect("a write");
        let _ = engine.trim(now, 1 << 18, 1 << 18, false).expect("a trim");
        assert_eq!(engine.close().expect("room"), Outcome::Clean);
        drop(engine);
        let mut image = Image::open(&path).expect("an image");
        let mut tables = read_tables(&image).expect("they can be read").expect("they are sound");
        change(&mut tables);
        image.file().write_all_at(&tables, image.layout().checkpoint).expect("room");
        let state = State {
            checkpoint_length: tables.len() as u64,
            checkpoint_sum: sum_of_tables(&tables).finalize(),
            ..image.state()
        };
        image.set_state(state).expect("room");
        path
    }

    fn open(image: Image) -> (Engine, Opened) {
        let options = Options { time: Time::Fast, ..Options::default() };
        Engine::open(image, options).expect("a drive")
    }

    fn check_contents(engine: &Engine) {
        let quarters = [7u8, 0, 8, 8];
        for (quarter, expected) in (0..).zip(quarters) {
            let mut data = vec![1; 1 << 18];
            let _ = engine.read(HostInstant::now(), quarter << 18, &mut data).expect("a read");
            assert!(data.iter().all(|&byte| byte == expected), "quarter {quarter}");
        }
    }

    #[test]
    fn tables_that_the_model_refuses_cost_a_recovery_and_nothing_else() {
        let changes: [fn(&mut Vec<u8>); 3] = [
            |tables| tables.truncate(tables.len() / 2),
            |tables| tables.iter_mut().for_each(|byte| *byte = !*byte),
            |tables| tables.truncate(8),
        ];
        for change in changes {
            let directory = tempfile::tempdir().expect("a directory");
            let path = changed(directory.path(), change);
            let image = Image::open(&path).expect("an image");
            assert!(image.state().is_clean && read_tables(&image).is_ok_and(|it| it.is_some()));
            drop(image);
            let (engine, opened) = open(Image::open(&path).expect("an image"));
            assert!(matches!(opened, Opened::WithoutTables(_)), "{opened:?}");
            check_contents(&engine);
            assert_eq!(engine.close().expect("room"), Outcome::Clean);
            drop(engine);
            let (engine, opened) = open(Image::open(&path).expect("an image"));
            assert_eq!(opened, Opened::Clean);
            check_contents(&engine);
        }
    }

    #[test]
    fn a_check_explains_tables_that_the_model_refuses_and_a_repair_makes_new_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = changed(directory.path(), |tables| tables.truncate(tables.len() / 2));
        let before = std::fs::read(&path).expect("the image");
        let report = check(&path).expect("a report");
        let [problem] = &report.problems[..] else { panic!("{report:?}") };
        assert!(problem.contains("tables") && problem.contains("recover"), "{problem}");
        assert_eq!((report.units_mapped, report.lost), (192, 0));
        assert!(std::fs::read(&path).expect("the image") == before, "a check changes nothing");
        repair(&path).expect("it recovers");
        let report = check(&path).expect("a report");
        assert!(report.is_clean && report.problems.is_empty(), "{report:?}");
    }
}
