//! Cutting power: what is left in the image is what would be left on the flash.

use std::io;

use ssdlab_units::Instant;

use super::Store;
use super::due::Action;
use crate::image::spare::Record;

impl Store {
    /// Cuts power at `at`. What is over then is done; of what is under way a program leaves a
    /// program unit that cannot be read, and an erase a part of a block that cannot be; what has
    /// not begun has left nothing, and what is in the buffer is lost.
    ///
    /// Where capacitors hold the drive up, save the buffer before.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn cut(&mut self, at: Instant) -> io::Result<()> {
        // What is erased by now is punched out here.
        self.is_helped = false;
        self.finish_under_way()?;
        self.carry_out(at)?;
        self.sync()?;
        let mut under_way: Vec<_> = self.due.drain().filter(|due| due.span.start < at).collect();
        under_way.sort_by_key(|due| due.order);
        for due in under_way {
            match due.action {
                Action::Program { first, .. } => self.tear(self.layout.program_of(first))?,
                Action::Erase { part } => self.tear_part(part)?,
                // A page of records that was not finished holds none.
                Action::Trims(_) => {}
            }
        }
        self.booked_programs = 0;
        self.erases_owed.fill(0);
        self.staged.clear();
        self.older.clear();
        self.next_due = Instant::from_nanos(u64::MAX);
        self.image.file().sync_data()
    }

    fn tear(&self, program: u32) -> io::Result<()> {
        let mut copies = self.layout.records_at(program).into_iter();
        copies.try_for_each(|at| self.image.file().write_all_at(&Record::torn(), at))
    }

    fn tear_part(&self, part: u32) -> io::Result<()> {
        for (from, length) in self.layout.records_of_part(part) {
            for at in (from..from + length).step_by(self.layout.record as usize) {
                self.image.file().write_all_at(&Record::torn(), at)?;
            }
        }
        Ok(())
    }
}
