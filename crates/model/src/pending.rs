//! Event-driven execution of requests in flight.
//!
//! [`Ssd::read`], [`Ssd::write`] and [`Ssd::flush`] answer at once, as if nothing came after them.
//! Where all requests are of one kind that is so, or nearly. But reads go before programs that
//! others wait for, and interrupt them; and what shares a channel or the link takes it in the order
//! in which it asks. And sequential reads share what is read ahead. So whoever mixes kinds, or reads
//! a stream, goes on with each request step by step: a step says when to go on, which may turn out
//! to be too early, never too late. Resources are then asked for in the order of time. Who does not
//! need that does not pay for it.

use crate::buffer::InFlight;
use crate::journal::PageNumbers;
use crate::large_read::Pages;
use crate::mapping::Mapping;
use crate::mapping::loads::Known;
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::streams::StreamId;
use crate::units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit, Sector, SectorCount};

/// How far a request is.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// It is answered then.
    Answered(Instant),
    /// It is to be gone on with.
    Waits(Waiting),
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    sent: Instant,
    until: Instant,
    what: For,
}

impl Waiting {
    /// When to go on with it: [`Ssd::go_on`].
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
enum For {
    /// The command to read so many units is being dealt with.
    Read(LogicalUnit, u32),
    /// The map pages with the entries of so many units are on their way, since then, as this lookup.
    MapPages(LogicalUnit, u32, Instant, u32),
    /// A page is being sensed.
    Sense(PhysicalUnit),
    /// Pages of the large read of this number are being sensed or moved.
    Pages(u32),
    /// The data of a read is moved to the controller.
    Channel,
    /// The command to write is being dealt with.
    Act(Write),
    /// There is no room in the buffer.
    Room(Write),
    /// The data of a write that fills the program unit that begins there is on its way.
    Fill(Write, PhysicalUnit),
    /// The map pages of a write are on their way, all of whose data is there.
    MapOf(Write),
    /// The command to flush is being dealt with.
    Flush,
    Programs(Programs),
    Journal(Programs),
}

/// A write of which not all data is in the buffer.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// When what is in the buffer was there, or when the command was acted on.
    ready: Instant,
    next: u32,
    end: u32,
    /// Whether its map entries were looked up, and what for.
    looked_up: bool,
    lookup: Option<u32>,
    /// What it writes, and when it was acted on.
    first: LogicalUnit,
    acted: Instant,
    /// The write stream that it belongs to, once that is known.
    stream: Option<StreamId>,
    /// Its place in the queue for the buffer.
    queued: u64,
    /// The program unit its first data went into.
    program: Option<u32>,
    force: bool,
}

/// What has to be programmed before a request is answered.
#[derive(Clone, Copy, Debug)]
struct Programs {
    /// The first of the host's program units; all where there is none.
    from: Option<u32>,
    to: u32,
    /// When the request had nothing else to wait for.
    ready: Instant,
    /// The journal pages that it has to program after that.
    pages: PageNumbers,
    /// Whether it is a flush.
    flush: bool,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Begins to read `count` sectors from `first` at `at`. Once they are acted on, requests for more
    /// than a unit, or through a map on flash, are answered; those for less are at once.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn begin_read(&mut self, at: Instant, first: Sector, count: SectorCount) -> Step {
        let Some((first, units)) = self.whole_units(first, count) else {
            return Step::Answered(self.read_sectors(at, first, count));
        };
        self.check_range(first, units);
        self.counters.host_read_units += u64::from(units);
        let until = self.take_up(at);
        Step::Waits(Waiting { sent: at, until, what: For::Read(first, units) })
    }

    /// Acts on the command to read `units` units.
    fn act_on_read(&mut self, sent: Instant, now: Instant, first: LogicalUnit, units: u32) -> Step {
        match self.begin_lookup(now, first, units, false) {
            None => self.read_of_known(sent, now, first, units),
            Some(lookup) => self.go_on_with_lookup(sent, now, (first, units, now, lookup)),
        }
    }

    /// Goes on with a read, acted on at `acted`, that waits for map pages.
    fn go_on_with_lookup(
        &mut self,
        sent: Instant,
        now: Instant,
        (first, units, acted, lookup): (LogicalUnit, u32, Instant, u32),
    ) -> Step {
        match self.look_at_lookup(lookup, now) {
            Known::At(at) if at <= now => {
                self.end_lookup(lookup);
                self.delays.reads.parts.map_miss += now.since(acted);
                self.read_of_known(sent, now, first, units)
            }
            Known::At(until) | Known::NotBefore(until) => {
                let what = For::MapPages(first, units, acted, lookup);
                Step::Waits(Waiting { sent, until, what })
            }
        }
    }

    /// Reads `units` units of which it is known where they lie.
    fn read_of_known(
        &mut self,
        sent: Instant,
        now: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Step {
        self.release_buffer(now);
        let start = self.find_extents_for_read(now, first, units);
        let stream = self.follow(first.0, first.0 + units);
        if stream.is_some() || units > 1 {
            let (number, pages) = self.begin_large_read(stream, start, first, units);
            return self.wait_for_pages(sent, number, pages);
        }
        match self.read_place_of(first) {
            None => self.counters.unmapped_read_units += 1,
            Some(physical) if self.is_buffered(physical, start) => {
                self.counters.buffer_hit_units += 1;
            }
            Some(physical) => {
                self.counters.flash_page_reads_host += 1;
                self.delays.reads.parts.flash_read += self.page_read_of(physical);
                self.delays.reads.parts.link += self.unit_over_channel;
                let die = self.geometry.die_of(physical);
                let until = self.sense(die, start, self.page_read_of(physical));
                return Step::Waits(Waiting { sent, until, what: For::Sense(physical) });
            }
        }
        Step::Waits(Waiting { sent, until: start, what: For::Channel })
    }

    fn wait_for_pages(&mut self, sent: Instant, number: u32, pages: Pages) -> Step {
        match pages {
            Pages::Until(until) => Step::Waits(Waiting { sent, until, what: For::Pages(number) }),
            Pages::Delivered(end) => Step::Answered(self.note_read(sent, end)),
        }
    }

    /// Begins to write `count` sectors from `first` at `at`; with `force`, they are durable when it
    /// is answered (FUA). Requests for parts of units are answered at once.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn begin_write(
        &mut self,
        at: Instant,
        first: Sector,
        count: SectorCount,
        force: bool,
    ) -> Step {
        let Some((first, units)) = self.whole_units(first, count) else {
            return Step::Answered(match force {
                true => self.write_fua_sectors(at, first, count),
                false => self.write_sectors(at, first, count),
            });
        };
        if !self.can_write(first, units) {
            return Step::Answered(self.refuse_write(at, first, units));
        }
        self.forget_read_ahead(first, units);
        self.counters.host_write_units += u64::from(units);
        self.counters.fua_writes += u64::from(force);
        let ready = self.take_up(at);
        let write = Write {
            ready,
            next: first.0,
            end: first.0 + units,
            looked_up: false,
            lookup: None,
            first,
            acted: ready,
            stream: self.take_hint(),
            queued: 0,
            program: None,
            force: force && self.durability.waits || self.durability.write_through,
        };
        Step::Waits(Waiting { sent: at, until: ready, what: For::Act(write) })
    }

    /// Acts on the command to write.
    fn act_on_write(&mut self, sent: Instant, now: Instant, mut write: Write) -> Step {
        let (first, units) = (LogicalUnit(write.next), write.end - write.next);
        self.note_acted(now);
        write.acted = self.find_extents_for_write(now, first, units);
        write.ready = write.acted;
        write.queued = self.buffer.queue(units);
        self.let_in(sent, now, write)
    }

    /// Begins to make all writes that were answered durable.
    pub fn begin_flush(&mut self, at: Instant) -> Step {
        if !self.durability.waits {
            return Step::Answered(self.flush(at));
        }
        self.counters.flushes += 1;
        let until = self.take_up_for(at, self.durability.overhead);
        Step::Waits(Waiting { sent: at, until, what: For::Flush })
    }

    /// Goes on with a request whose instant has come.
    pub fn go_on(&mut self, waiting: Waiting) -> Step {
        let Waiting { sent, until: now, what } = waiting;
        self.advance_in_time(now);
        match what {
            For::Read(first, units) => self.act_on_read(sent, now, first, units),
            For::MapPages(first, units, acted, lookup) => {
                self.go_on_with_lookup(sent, now, (first, units, acted, lookup))
            }
            For::Sense(unit) => {
                let channel = self.geometry.channel_of(self.geometry.die_of(unit));
                let channel = Resource::Channel(channel);
                let transfer = self.unit_over_channel;
                let until = self.resources.reserve_in_turn(channel, Class::Read, now, transfer).end;
                Step::Waits(Waiting { sent, until, what: For::Channel })
            }
            For::Pages(number) => {
                let pages = self.go_on_with_large_read(number, now);
                self.wait_for_pages(sent, number, pages)
            }
            For::Channel => {
                let transfer = self.unit_to_host;
                self.delays.reads.parts.link += transfer;
                let link = Resource::LinkToHost;
                let end = self.resources.reserve_in_turn(link, Class::Read, now, transfer).end;
                Step::Answered(self.note_read(sent, end))
            }
            For::Act(write) => self.act_on_write(sent, now, write),
            For::Room(write) => self.let_in(sent, now, write),
            For::Fill(write, start) => {
                if self.choose_stream_filled_from(start) {
                    self.program_host(now, 0);
                }
                self.finish_write(sent, now, write)
            }
            For::MapOf(write) => self.finish_write(sent, now, write),
            For::Flush => {
                self.pad_host_program(now);
                let recorded = self.make_trims_durable(now);
                self.wait_for_programs(sent, None, now, recorded, true)
            }
            For::Programs(programs) => self.go_on_with_programs(sent, now, programs),
            For::Journal(programs) => self.go_on_with_journal(sent, now, programs),
        }
    }

    /// Lets the data of a write into the buffer, as far as there is room.
    fn let_in(&mut self, sent: Instant, now: Instant, mut write: Write) -> Step {
        self.release_buffer(now);
        if self.streams.is_some() {
            // Others may have written to another stream since it began.
            let stream = write.stream.unwrap_or_else(|| self.stream_of(write.first));
            write.stream = Some(stream);
            self.write_to(stream);
        }
        while write.next < write.end {
            if self.host.room() == 0 {
                self.begin_host_program();
            }
            let count = self.host.room().min(write.end - write.next);
            if let Err(until) = self.buffer.let_in(write.queued, count, now, &self.resources.dies) {
                // A program unit that is yet to be sent off may make room sooner.
                let until = until.min(now + self.shortest_program());
                self.look_up_for(&mut write);
                return Step::Waits(Waiting { sent, until, what: For::Room(write) });
            }
            write.program.get_or_insert(self.buffer.next_number());
            write.queued += u64::from(count);
            write.ready = self.receive_let_in(write.ready, now, count);
            for unit in write.next..write.next + count {
                self.place(LogicalUnit(unit));
            }
            write.next += count;
            if self.host.room() == 0 {
                if write.next == write.end && write.ready > now && self.in_time.is_on() {
                    // What is asked for until then comes before the program.
                    self.look_up_for(&mut write);
                    let start = self.host.program_start();
                    let (until, what) = (write.ready, For::Fill(write, start));
                    return Step::Waits(Waiting { sent, until, what });
                }
                self.program_host(write.ready, 0);
            }
        }
        self.finish_write(sent, now, write)
    }

    /// A write all of whose data is in the buffer, or on its way there.
    fn finish_write(&mut self, sent: Instant, now: Instant, mut write: Write) -> Step {
        self.look_up_for(&mut write);
        if let Some(lookup) = write.lookup {
            match self.look_at_lookup(lookup, now) {
                Known::NotBefore(until) => {
                    return Step::Waits(Waiting { sent, until, what: For::MapOf(write) });
                }
                Known::At(known) if known > write.ready => {
                    self.delays.writes.parts.map_miss += known.since(write.ready);
                    write.ready = known;
                }
                Known::At(_) => {}
            }
            self.end_lookup(lookup);
        }
        if !write.force {
            return Step::Answered(self.note_write(sent, write.ready));
        }
        self.pad_host_program(write.ready);
        let trimmed = self.trimmed_meanwhile(&write, now);
        self.wait_for_programs(sent, write.program, write.ready, trimmed, false)
    }

    /// When all is durable that was trimmed of a write while its data was on the way: that left its
    /// program unit empty there, and what the flash holds of it is older than the write.
    fn trimmed_meanwhile(&mut self, write: &Write, now: Instant) -> Instant {
        let mut units = (write.first.0..write.end).map(LogicalUnit);
        match units.any(|unit| self.map.get(unit).is_none()) {
            true => self.make_trims_durable(now),
            false => now,
        }
    }

    /// Looks up where the units of a write lay, unless that was done.
    fn look_up_for(&mut self, write: &mut Write) {
        if !write.looked_up {
            write.looked_up = true;
            let units = write.end - write.first.0;
            write.lookup = self.begin_lookup(write.acted, write.first, units, true);
        }
    }

    fn shortest_program(&self) -> Nanoseconds {
        let slc = self.slc.as_ref().map(|slc| slc.program());
        slc.unwrap_or(self.timing.program).min(self.timing.program)
    }

    /// Has a request wait for the host's program units from `from` on, not before it is `ready` and
    /// records of trims are there at `recorded`.
    fn wait_for_programs(
        &mut self,
        sent: Instant,
        from: Option<u32>,
        ready: Instant,
        recorded: Instant,
        flush: bool,
    ) -> Step {
        let to = self.buffer.next_number();
        let pages = self.number_journal_pages();
        let what = For::Programs(Programs { from, to, ready, pages, flush });
        Step::Waits(Waiting { sent, until: ready.max(recorded), what })
    }

    fn go_on_with_programs(&mut self, sent: Instant, now: Instant, programs: Programs) -> Step {
        self.release_buffer(now);
        let dies = &self.resources.dies;
        let end_of = |it: &InFlight| dies[it.die.0 as usize].end_of(it.booking, it.end);
        let until = self.buffer.programmed_between(programs.from, programs.to, end_of);
        let until = until.max(self.condenser.until);
        if until > now {
            self.await_journal_pages(programs.pages, until);
            return Step::Waits(Waiting { sent, until, what: For::Programs(programs) });
        }
        self.program_journal_pages(programs.pages, now);
        self.go_on_with_journal(sent, now, programs)
    }

    fn go_on_with_journal(&mut self, sent: Instant, now: Instant, programs: Programs) -> Step {
        let until = self.journal_programmed_before(programs.pages.end, now);
        if until > now {
            return Step::Waits(Waiting { sent, until, what: For::Journal(programs) });
        }
        self.media.promise(now);
        if programs.flush {
            return Step::Answered(self.note_flush(sent, now));
        }
        self.delays.writes.parts.flush += now.since(programs.ready);
        Step::Answered(self.note_write(sent, now))
    }
}
