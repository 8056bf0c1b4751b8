//! Restoring units from a buffer dump when the drive recovers.

use std::collections::HashMap;
use std::io;

use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::contents::FoundContents;
use super::{Source, Store};
use crate::image::dump::{Content, Dump, FoundDump, SavedUnit};

impl Store {
    /// Reads the latest buffer dump, unless the image says that it is void. Returns the dump, and true if a
    /// promised dump is missing.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub(super) fn read_dump(&mut self) -> io::Result<(Option<FoundDump>, bool)> {
        let state = self.image.state();
        let found = Dump::read(self.image.file(), &self.layout, state.dump)?;
        self.dumps.adopt(&found);
        let newest = found.newest.filter(|it| it.dump.generation > state.dumps_void);
        let is_there = newest.as_ref().is_some_and(|it| it.dump.generation >= state.dump);
        let is_missing = state.dump > state.dumps_void && !is_there;
        Ok((newest, is_missing))
    }

    /// Chooses the saved units of which the flash has no newer copy, and adds them with their data, and the
    /// saved trims, to `found`. Returns the number of damaged units.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub(super) fn choose_saved(
        &mut self,
        found: &mut FoundContents,
        FoundDump { dump, slot, .. }: &FoundDump,
    ) -> io::Result<u64> {
        let mut saved: HashMap<LogicalUnit, (usize, SavedUnit)> = HashMap::new();
        saved.extend(dump.units.iter().enumerate().map(|(index, it)| (it.logical, (index, *it))));
        let is_newer = |logical, number: SequenceNumber, saved: &HashMap<_, (usize, SavedUnit)>| {
            saved.get(&logical).is_some_and(|(_, it)| number > it.number)
        };
        let greatest = dump.units.iter().map(|it| it.number).max();
        found.saved_through = greatest.unwrap_or_default();
        let least = dump.units.iter().map(|it| it.number).min().unwrap_or_default();
        for (program, number) in found.readable().filter(|&(_, number)| number > least) {
            let named = found.spare_of(&self.layout, program);
            for logical in named.iter().filter_map(|it| it.checked_sub(1)).map(LogicalUnit) {
                if is_newer(logical, number, &saved) {
                    saved.remove(&logical);
                }
            }
        }
        for trim in found.trims.iter().filter(|trim| trim.number > least) {
            let range = trim.first.0..trim.first.0.saturating_add(trim.units);
            saved.retain(|logical, (_, it)| {
                !(range.contains(&logical.0) && trim.number > it.number)
            });
        }
        let mut saved: Vec<(usize, SavedUnit)> = saved.into_values().collect();
        saved.sort_unstable_by_key(|&(index, _)| index);
        let mut damaged = 0;
        for (index, SavedUnit { logical, number, content }) in saved {
            let data = match content {
                Content::Trimmed => {
                    found.trims.push(TrimRecord { first: logical, units: 1, number });
                    continue;
                }
                Content::Lost => None,
                Content::Data(sum) => {
                    let data = Dump::read_unit(self.image.file(), &self.layout, *slot, index)?;
                    (crc32fast::hash(&data) == sum).then(|| (data.into(), sum))
                }
            };
            damaged += u64::from(data.is_none());
            found.saved.push(logical);
            found.saved_data.push(data);
        }
        Ok(damaged)
    }

    /// Stages the saved unit number `index` at `unit`.
    pub(super) fn restore_saved(&mut self, index: usize, unit: PhysicalUnit) {
        let size = self.layout.unit as usize;
        let found = self.found.as_mut().expect("a drive is opened from an image that was read");
        let (logical, data) = (found.saved[index], found.saved_data[index].take());
        let program = self.layout.program_of(unit);
        let within = (unit.0 - program * self.layout.units_per_program) as usize;
        self.has_lost |= data.is_none();
        let staged = self.staged_mut(program);
        let place = &mut staged.data[within * size..(within + 1) * size];
        staged.units[within] = match data {
            Some((data, sum)) => {
                place.copy_from_slice(&data);
                Source::Staged { logical, sum }
            }
            None => {
                place.fill(0);
                Source::Lost { logical }
            }
        };
    }
}
