//! The check on a simulated drive: trimmed sectors are read without flash, at once or later.

use ssdlab_drive::simulated::TrimEnd;
use ssdlab_drive::{Control, Drive, DriveError, ErrorKind, Region};
use ssdlab_fs_model::{FileSystem, MountOptions};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::super::phase_runner::PhaseRunner;
use super::blocks::{BLOCK, Content};
use super::{Contents, JUST_TRIMMED, LayerTrim, Observations, Protocol, Verdict};
use crate::error::LabError;

impl Protocol {
    pub(super) fn measure_simulated(
        &self,
        runner: &mut PhaseRunner,
        observed: &mut Observations,
    ) -> Result<(), LabError> {
        runner.begin_step("trim check", 1.0);
        if runner.watcher.progress(0.0) == Control::Cancel {
            return Err(DriveError::cancelled().into());
        }
        let PhaseRunner { drive, tally, .. } = runner;
        let drive = drive.simulated().expect("asked before");
        let path = drive.trim_path();
        for (name, passes) in &path.layers {
            let (name, takes_trim) = (name.clone(), Some(*passes));
            observed.layers.push(LayerTrim { name, discard_max: None, takes_trim });
        }
        observed.layers.push(LayerTrim {
            name: "drive".to_owned(),
            discard_max: None,
            takes_trim: Some(path.end != TrimEnd::Ignored),
        });
        let read_as = match path.end {
            TrimEnd::Ones => Content::Ones,
            TrimEnd::Zeros | TrimEnd::Undefined | TrimEnd::Ignored => Content::Zeros,
        };
        let capacity = drive.description().capacity;
        let mut files = FileSystem::new(drive, capacity, MountOptions::default())?;
        let file = files.create(files.root(), "trim-check")?;
        files.append(file, self.size)?;
        files.sync()?;
        let regions = files.places(file);
        files.spend(Nanoseconds::from_secs(1))?;
        observed.moments.push(("written", read_all(&mut files, &regions, read_as)?));
        files.remove(files.root(), "trim-check")?;
        files.sync()?;
        observed.moments.push(("deleted", read_all(&mut files, &regions, read_as)?));
        match files.fstrim(ByteLength::ZERO) {
            Ok(trimmed) => observed.trimmed = Some(trimmed),
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
        }
        let at_once = read_all(&mut files, &regions, read_as)?;
        observed.moments.push((JUST_TRIMMED, at_once));
        files.spend(self.wait)?;
        let last = read_all(&mut files, &regions, read_as)?;
        observed.moments.push(("trimmed", last));
        tally.requests += files.sent().writes + files.sent().trims + 4 * regions.len() as u64;
        tally.bytes += files.sent().written + self.size * 4;
        let stopped = path.layers.iter().find(|(_, passes)| !passes);
        observed.verdict = Some(match stopped {
            Some((name, _)) => Verdict::StoppedAtLayer {
                at: name.clone(),
                why: "it does not pass trims on".to_owned(),
            },
            // The drive reports itself that reads are undefined, as a real one does, whatever it has done.
            None if path.end == TrimEnd::Undefined => Verdict::NotDeterministic,
            None if last.old == 0 => {
                Verdict::Works { reads_as: if read_as == Content::Ones { "ones" } else { "zeros" } }
            }
            None if path.end == TrimEnd::Ignored => Verdict::StoppedAtLayer {
                at: "drive".to_owned(),
                why: "it takes trims and does nothing".to_owned(),
            },
            None => Verdict::OldDataReadable,
        });
        let now = files.now();
        drive.advance_to(now);
        Ok(())
    }
}

/// Reads regions of the drive, past the file system. Mapped blocks hold the old data; unmapped ones read as
/// `trimmed`.
fn read_all(
    files: &mut FileSystem<'_>,
    regions: &[Region],
    trimmed: Content,
) -> Result<Contents, LabError> {
    let mut contents = Contents::default();
    for region in regions {
        let blocks = region.length.whole(ByteLength::new(BLOCK as u64));
        let nowhere = files.read_past(*region)?;
        contents.count(trimmed, nowhere);
        contents.count(Content::Old, blocks - nowhere);
    }
    Ok(contents)
}
