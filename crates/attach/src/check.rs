//! Checking an image: compares all data and records with their checksums and with the drive's tables.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;
use ssdlab_units::LogicalUnit;

use crate::engine::{Engine, Errno, Options, restore};
use crate::error::AttachError;
use crate::image::Image;
use crate::recover::recover;
use crate::store::Store;

/// Maximum number of lost units that a report names.
const NAMED_UNITS_MAX: usize = 20;

/// Result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this record.
    pub schema: &'static str,
    /// Path of the image.
    pub image: String,
    /// Name of the profile.
    pub profile: String,
    /// True if the image was closed in order, so that it opens quickly.
    pub is_clean: bool,
    /// Number of times that the image was attached.
    pub attached: u64,
    /// Number of program units that hold data or padding.
    pub program_units: u64,
    /// Number of program units whose program or erase was interrupted by a power cut: they hold nothing that
    /// was promised.
    pub unreadable: u64,
    /// Number of those whose record was written, but not all of their data.
    pub torn: u64,
    /// Number of units that the host has written and not trimmed.
    pub units_mapped: u64,
    /// Number of trim records.
    pub trims: u64,
    /// Number of units that were saved from the write buffer.
    pub saved: u64,
    /// Number of mapped units in program units whose spare area cannot be read.
    pub damaged: u64,
    /// Number of units whose data does not match its checksum: reading them fails.
    pub lost: u64,
    /// The first of the lost units, at most 20.
    pub lost_units: Vec<u32>,
    /// Problems, as text; empty if the image is sound.
    pub problems: Vec<String>,
}

/// Checks the image at `path`, without changing it.
///
/// # Errors
/// Returns an error if the image is attached, is no image, or cannot be read. Problems with its contents are in
/// the report.
pub fn check(path: &Path) -> Result<Report, AttachError> {
    check_image(Image::open(path)?)
}

/// Checks `image`, without changing it.
///
/// # Errors
/// Returns an error if the image cannot be read.
pub fn check_image(image: Image) -> Result<Report, AttachError> {
    let path = &image.path().to_owned();
    let cannot = |error| AttachError::io("read", path, error);
    let (state, configuration) = (image.state(), image.configuration().clone());
    let mut report = Report {
        schema: "ssdlab.check/1",
        image: path.display().to_string(),
        profile: image.profile().name().to_owned(),
        is_clean: state.is_clean,
        attached: state.attached,
        program_units: 0,
        unreadable: 0,
        torn: 0,
        units_mapped: 0,
        trims: 0,
        saved: 0,
        damaged: 0,
        lost: 0,
        lost_units: Vec::new(),
        problems: image.damage().all().cloned().collect(),
    };
    if state.attached == 0 {
        return Ok(report);
    }
    let mut store = Store::new(image.clone());
    let survey = store.survey().map_err(cannot)?;
    report.problems.extend(survey.damage.all().cloned());
    report.program_units = survey.written;
    report.unreadable = survey.unreadable.len() as u64 + survey.torn.len() as u64;
    report.torn = survey.torn.len() as u64;
    (report.trims, report.saved) = (survey.trims, survey.saved);
    let wrong = store.verify_data().map_err(cannot)?;
    // No operation is carried out on the image, so nothing is written: the drive is opened in RAM alone.
    let recover = |store, survey| match recover(&image, store, survey) {
        Ok(recovered) => Ok(Ok(recovered.model)),
        Err(AttachError::Recovery { source, .. }) => Ok(Err(source.to_string())),
        Err(error) => Err(error),
    };
    let opened = if !state.is_clean {
        recover(store, survey.clone())?
    } else {
        match restore(&image, store).map_err(cannot)? {
            Ok(model) => Ok(model),
            Err(why) => {
                report.problems.push(format!(
                    "the tables saved at the end cannot be used ({why}): that loses nothing, the \
                     drive will recover from its flash instead"
                ));
                let mut store = Store::new(image.clone());
                let survey = store.survey().map_err(cannot)?;
                recover(store, survey)?
            }
        }
    };
    let mut model = match opened {
        Ok(model) => model,
        Err(why) => {
            report.problems.push(format!("the drive cannot be opened: {why}"));
            return Ok(report);
        }
    };
    let unreadable: HashSet<u32> = survey.unreadable.into_iter().chain(survey.torn).collect();
    let wrong: HashSet<u32> = wrong.into_iter().collect();
    let mut damaged = HashSet::new();
    let mut misplaced = 0;
    let mut next = model.next_mapped(LogicalUnit(0));
    while let Some((unit, place)) = next {
        next = model.next_mapped(LogicalUnit(unit.0 + 1));
        report.units_mapped += 1;
        let store = model.store();
        // Recovery may have copied the unit, to reclaim space.
        let Some(place) = store.place_in_image(place) else { continue };
        let program = store.program_of(place);
        if unreadable.contains(&program) {
            damaged.insert(program);
            report.damaged += 1;
        } else if store.logical_in_spare(place).is_some_and(|named| named != Some(unit)) {
            misplaced += 1;
        }
        if unreadable.contains(&program) || wrong.contains(&program) {
            let mut data = vec![0; configuration.geometry.unit_size().bytes() as usize];
            let sum = match store.read_unit(place, &mut data) {
                Ok(sum) => Some(sum),
                // No record has the unit's checksum.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => None,
                Err(error) => return Err(cannot(error)),
            };
            if sum != Some(crc32fast::hash(&data)) {
                report.lost += 1;
                if report.lost_units.len() < NAMED_UNITS_MAX {
                    report.lost_units.push(unit.0);
                }
            }
        }
    }
    // Mapped units were in these, so their program or erase was not interrupted: they are damaged.
    report.unreadable -= damaged.len() as u64;
    if report.lost > 0 {
        report.problems.push(format!(
            "{} units do not hold the data that was written, the first is unit {}: reads of them \
             fail until they are rewritten",
            report.lost, report.lost_units[0]
        ));
    }
    if report.damaged > 0 {
        report.problems.push(format!(
            "{} units lie where the OOB area is damaged: a recovery would not find them; rewriting \
             them repairs that",
            report.damaged
        ));
    }
    if misplaced > 0 {
        report.problems.push(format!(
            "{misplaced} units lie where the OOB area names another unit: the image was changed \
             from outside"
        ));
    }
    Ok(report)
}

/// Opens the drive in the image at `path`, lets it recover, and closes the image in order. Recovery gives up
/// only what was never promised; promised data that is damaged already is accepted as lost.
///
/// # Errors
/// Returns an error if the drive cannot be opened, or if the image cannot be written.
pub fn repair(path: &Path) -> Result<(), AttachError> {
    let image = Image::open(path)?;
    if image.is_read_only() {
        let message = "is not writable, and so cannot be repaired; copy it to a writable place";
        return Err(AttachError::image(path, message));
    }
    let options = Options { accept_loss: true, ..Options::default() };
    let (engine, _) = Engine::open(image, options)?;
    engine.close().map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::time::Instant as HostInstant;

    use ssdlab_model::profile::{DEFAULT, Profile};

    use super::*;
    use crate::engine::Time;
    use crate::image::table;

    #[test]
    fn spare_areas_that_were_damaged_are_told_from_those_of_a_power_cut() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk.ssd");
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        profile.set("capacity.logical", "64M").expect("a size");
        profile.set("capacity.physical", "128M").expect("a size");
        profile.set("flash.pages_per_block", "12").expect("pages");
        let options = Options { time: Time::Fast, ..Options::default() };
        let image = Image::create(&path, &profile, false).expect("an image");
        let (mut engine, _) = Engine::open(image, options).expect("a drive");
        let _ = engine.write(HostInstant::now(), 0, &[7; 1 << 20], false).expect("a write");
        let _ = engine.flush(HostInstant::now()).expect("a flush");
        engine.close().expect("room");
        drop(engine);
        let image = Image::open(&path).expect("an image");
        let layout = image.layout().clone();
        // In the first program unit, one copy of the record loses its mark.
        let [one, other] = layout.records_at(0);
        image.file().write_all_at(&[0x5a; 4], one).expect("room");
        drop(image);
        let report = check(&path).expect("a report");
        assert_eq!((report.damaged, report.lost, report.unreadable), (0, 0, 0), "{report:?}");
        let [problem] = &report.problems[..] else { panic!("{report:?}") };
        assert!(problem.contains("OOB area of 1 program units"), "{problem}");
        // Both copies lose it.
        let image = Image::open(&path).expect("an image");
        image.file().write_all_at(&[0x5a; 4], other).expect("room");
        drop(image);
        let report = check(&path).expect("a report");
        let units = u64::from(layout.units_per_program);
        assert_eq!((report.damaged, report.lost), (units, units), "{report:?}");
        assert!(report.problems.iter().any(|it| it.contains("OOB area is damaged")));
        // After the unit is written anew, all is well.
        engine = Engine::open(Image::open(&path).expect("an image"), options).expect("a drive").0;
        let _ = engine.write(HostInstant::now(), 0, &[7; 1 << 20], false).expect("a write");
        engine.close().expect("room");
        drop(engine);
        let report = check(&path).expect("a report");
        assert_eq!((report.damaged, report.problems.len()), (0, 0), "{report:?}");
    }

    #[test]
    fn an_entry_of_the_block_table_that_lacks_an_erase_in_one_copy_is_written_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk.ssd");
        let profile = Profile::named(DEFAULT).expect("the default profile");
        let options = Options { time: Time::Fast, ..Options::default() };
        let image = Image::create(&path, &profile, false).expect("an image");
        // Neither engine is closed: the program ends.
        drop(Engine::open(image, options).expect("a drive"));
        let image = Image::open(&path).expect("an image");
        table::write(image.file(), image.layout(), 3, 1).expect("room");
        image.file().write_all_at(&[0; 8], image.layout().erases_at(3)[1]).expect("room");
        drop(image);
        assert!(check(&path).expect("a report").problems.is_empty(), "a crash leaves that");
        drop(Engine::open(Image::open(&path).expect("an image"), options).expect("a drive"));
        let image = Image::open(&path).expect("an image");
        let found = table::read(image.file(), image.layout()).expect("a table");
        assert_eq!((found.erases[3], found.behind, found.damaged), (1, vec![], vec![]));
    }
}
