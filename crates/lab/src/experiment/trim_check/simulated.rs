//! The check on a simulated drive: trimmed sectors are read without flash, at once or later.

use ssdlab_drive::simulated::TrimEnd;
use ssdlab_drive::{Control, Drive, DriveError, ErrorKind, Region};
use ssdlab_fs_model::{FileSystem, MountOptions};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::super::course::Course;
use super::blocks::{BLOCK, Content};
use super::{AT_ONCE, Contents, LayerSeen, Protocol, Seen, Verdict};
use crate::error::LabError;

impl Protocol {
    pub(super) fn simulate(&self, course: &mut Course, seen: &mut Seen) -> Result<(), LabError> {
        course.begin("trim check", 1.0);
        if course.watcher.progress(0.0) == Control::Cancel {
            return Err(DriveError::cancelled().into());
        }
        let Course { drive, tally, .. } = course;
        let drive = drive.simulated().expect("asked before");
        let path = drive.trim_path();
        for (name, passes) in &path.layers {
            let (name, takes_trim) = (name.clone(), Some(*passes));
            seen.layers.push(LayerSeen { name, discard_max: None, takes_trim });
        }
        seen.layers.push(LayerSeen {
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
        seen.moments.push(("written", read_all(&mut files, &regions, read_as)?));
        files.remove(files.root(), "trim-check")?;
        files.sync()?;
        seen.moments.push(("deleted", read_all(&mut files, &regions, read_as)?));
        match files.fstrim(ByteLength::ZERO) {
            Ok(trimmed) => seen.trimmed = Some(trimmed),
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
        }
        let at_once = read_all(&mut files, &regions, read_as)?;
        seen.moments.push((AT_ONCE, at_once));
        files.spend(self.wait)?;
        let last = read_all(&mut files, &regions, read_as)?;
        seen.moments.push(("trimmed", last));
        tally.requests += files.sent().writes + files.sent().trims + 4 * regions.len() as u64;
        tally.bytes += files.sent().written + self.size * 4;
        let stopped = path.layers.iter().find(|(_, passes)| !passes);
        seen.verdict = Some(match stopped {
            Some((name, _)) => {
                Verdict::Stopped { at: name.clone(), why: "it does not pass trims on".to_owned() }
            }
            // The drive reports itself that reads are undefined, as a real one does, whatever it has done.
            None if path.end == TrimEnd::Undefined => Verdict::NotDeterministic,
            None if last.old == 0 => {
                Verdict::Works { reads_as: if read_as == Content::Ones { "ones" } else { "zeros" } }
            }
            None if path.end == TrimEnd::Ignored => Verdict::Stopped {
                at: "drive".to_owned(),
                why: "it takes trims and does nothing".to_owned(),
            },
            None => Verdict::StillThere,
        });
        let now = files.now();
        drive.pass_until(now);
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
