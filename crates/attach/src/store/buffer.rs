//! What is in the write buffer, and keeping it as capacitors would.
//!
//! The image has room to save what the drive's buffer holds. Whoever asks without waiting for answers is
//! ahead of the drive's clock, and more than that is staged: then what is booked is carried out early,
//! until all that is staged would fit. So there is room whenever an erase wants the buffer saved.

use std::io;

use ssdlab_model::media::SequenceNumber;
use ssdlab_model::units::{LogicalUnit, PhysicalUnit};

use super::due::Action;
use super::{Source, Store};
use crate::image::saved::Saved;

impl Store {
    /// Whether an erase waits for the buffer to be saved: [`Store::carry_out`] has stopped there.
    pub fn wants_buffer_saved(&self) -> bool {
        self.wants_buffer_saved
    }

    /// The buffer was saved, durably: erases that are booked now may be carried out.
    pub fn allow_erases(&mut self) {
        self.erases_until = self.erases_until.map(|_| self.booked);
        self.wants_buffer_saved = false;
    }

    /// Whether the buffer could be saved at any time if the host wrote so many units more. Always, where
    /// there are no capacitors.
    #[inline]
    pub fn could_save_with(&self, units: u32) -> bool {
        // Beside what is booked there are the program units that are being filled, for which there is room.
        let booked = self.booked_programs * u64::from(self.layout.units_per_program);
        self.erases_until.is_none() || booked + u64::from(units) <= u64::from(self.buffered)
    }

    /// Keeps `units`, which lie in the buffer at these places, as capacitors would; `number` is the
    /// latest sequence number.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn save_buffer(
        &mut self,
        number: SequenceNumber,
        units: &[(LogicalUnit, PhysicalUnit)],
    ) -> io::Result<()> {
        self.finish_under_way()?;
        let size = self.layout.unit as usize;
        let mut saved = Saved {
            generation: self.saved.generation + 1,
            number: number.0,
            logical: Vec::new(),
            data: Vec::new(),
        };
        for &(logical, place) in units {
            saved.logical.push(logical);
            let from = saved.data.len();
            saved.data.resize(from + size, 0);
            self.read_unit(place, &mut saved.data[from..])?;
        }
        if saved.logical.is_empty() && self.saved.logical.is_empty() {
            return Ok(());
        }
        saved.write(self.image.file(), &self.layout)?;
        self.stamp += 1;
        self.saved = saved;
        Ok(())
    }

    /// The units that the host wrote and that no program was carried out for, with their places.
    pub fn in_buffer(&mut self) -> Vec<(LogicalUnit, PhysicalUnit)> {
        self.settle_under_way();
        let per_program = self.layout.units_per_program;
        let mut places = Vec::new();
        let older = self.due.iter().filter_map(|due| match due.action {
            Action::Program { first, life, .. } => {
                Some((self.layout.program_of(first), self.older.get(&life)?))
            }
            _ => None,
        });
        for (program, staged) in self.staged.iter().map(|(&it, staged)| (it, staged)).chain(older) {
            for (index, source) in staged.units.iter().enumerate() {
                if let &(Source::Here { logical, .. } | Source::Ahead { logical, .. }) = source {
                    places.push((logical, PhysicalUnit(program * per_program + index as u32)));
                }
            }
        }
        places.sort_unstable_by_key(|(_, place)| place.0);
        places
    }

    /// Whether the data of `unit`, which is mapped, is in no program unit that was carried out: it was
    /// staged there, or where it is copied from.
    pub fn is_in_buffer(&self, unit: PhysicalUnit) -> bool {
        self.origin(unit).1.is_some()
    }

    /// The logical units whose data is of no program unit that was carried out, copies included.
    pub fn staged_units(&mut self) -> Vec<LogicalUnit> {
        let mut units: Vec<LogicalUnit> = self.in_buffer().into_iter().map(|it| it.0).collect();
        for due in &self.due {
            if let Action::Program { spare, .. } = &due.action {
                let named = spare.iter().filter_map(|unit| unit.checked_sub(1));
                units.extend(named.map(LogicalUnit));
            }
        }
        units
    }
}
