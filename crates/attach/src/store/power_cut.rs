//! Power cut: leaves in the image what would be left on the flash.

use std::io;

use ssdlab_model::ftl::Torn;

use super::Store;
use crate::image::spare::Record;

impl Store {
    /// Cuts power. Completed flash operations are carried out on the image. Operations in flight are in `torn`:
    /// a torn program leaves an unreadable program unit, a torn erase an unreadable part of a block. Operations
    /// that have not begun leave nothing, and the buffer is lost.
    ///
    /// On a drive with PLP, save the buffer before the call.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written.
    pub fn cut(&mut self, torn: &[Torn]) -> io::Result<()> {
        // Erased data is punched out by this thread from here on.
        self.has_helper = false;
        self.finish_step()?;
        self.carry_out()?;
        self.sync()?;
        for &torn in torn {
            match torn {
                Torn::Program(first) => self.tear(self.layout.program_of(first))?,
                Torn::Erase(block, die) => self.tear_part(self.layout.part_of(block, die))?,
            }
        }
        self.erases_in_flight.fill(0);
        self.op_queue.clear();
        self.programs_in_flight.clear();
        self.staged.clear();
        self.older_generations.clear();
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
