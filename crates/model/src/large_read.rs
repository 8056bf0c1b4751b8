//! Reads of several pages, and of what was read ahead, in the order of time.
//!
//! Asked at once, a request books the channels for all its pages when it is acted on; pages that are
//! sensed early, but asked for late, then go behind those booked before them. Step by step
//! ([`crate::pending`]) each page asks for its channel when it is sensed, and for the link when it
//! has arrived. What a sequential stream reads ahead does the same by itself ([`crate::fetch`]), and
//! requests that need it look when it can have arrived.

use crate::attribution::Blocked;
use crate::fetch::FetchedAt;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::read::{PageRead, Piece};
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::timing::Delivery;
use crate::units::{Instant, LogicalUnit, PhysicalUnit};

/// A piece of a request on its way to the host.
#[derive(Clone, Copy, Debug)]
struct OnItsWay {
    units: u32,
    /// When it is in the controller; nothing while that is not known.
    ready: Option<Instant>,
    sent: bool,
}

/// A read under way.
#[derive(Clone, Debug, Default)]
struct LargeRead {
    /// Its pages, by when they are sensed, and how many of them have asked for their channel.
    pages: Vec<PageRead>,
    asked: usize,
    pieces: Vec<OnItsWay>,
    /// Pieces, by their index, that wait for what is read ahead, with the number of its fetch and
    /// when to look again.
    awaited: Vec<(u32, u32, Instant)>,
    /// Whether it continues a sequential stream.
    sequential: bool,
    /// When the latest page arrives of those that asked, and which.
    last: Option<(Instant, usize)>,
    /// When it was acted on, and when the latest piece sent is with the host.
    start: Instant,
    end: Instant,
    /// What all its senses waited for.
    blocked: Blocked,
}

/// All reads of several pages that are under way, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeReads {
    reads: Vec<LargeRead>,
    free: Vec<u32>,
}

/// Where a read of several pages is.
pub(crate) enum Pages {
    /// It is to be gone on with at this instant.
    Until(Instant),
    /// All of it is with the host then.
    Delivered(Instant),
}

impl LargeReads {
    /// A number for another read, whose lists are empty.
    fn take(&mut self) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.reads.push(LargeRead::default());
            self.reads.len() as u32 - 1
        });
        let read = &mut self.reads[number as usize];
        read.pages.clear();
        read.pieces.clear();
        read.awaited.clear();
        (read.asked, read.last) = (0, None);
        number
    }
}

impl LargeRead {
    /// When to go on with it; nothing when all of it is sent.
    fn next_at(&self, delivery: Delivery) -> Option<Instant> {
        let sensed = self.pages.get(self.asked).map(|page| page.sensed);
        let mut unsent = self.pieces.iter().filter(|piece| !piece.sent);
        let ready = match delivery {
            Delivery::AnyOrder => unsent.filter_map(|piece| piece.ready).min(),
            Delivery::InOrder => unsent.next().and_then(|piece| piece.ready),
            Delivery::WhenComplete if sensed.is_some() || !self.awaited.is_empty() => None,
            Delivery::WhenComplete => unsent.filter_map(|piece| piece.ready).max(),
        };
        let awaited = self.awaited.iter().map(|&(_, _, at)| at).min();
        [sensed, ready, awaited].into_iter().flatten().min()
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Has the pages sensed that `units` units from `first` lie on, but for those that were read
    /// ahead of `stream`, and reads ahead of it; returns the read's number.
    pub(crate) fn begin_large_read(
        &mut self,
        stream: Option<usize>,
        start: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> (u32, Pages) {
        let number = self.large_reads.take();
        let mut read = std::mem::take(&mut self.large_reads.reads[number as usize]);
        self.begin_pieces();
        match stream {
            None => self.gather(start, first, units),
            Some(stream) => self.gather_sequential(stream, start, first, units, |piece, fetch| {
                read.awaited.push((piece, fetch, start));
            }),
        }
        let before = self.blocked();
        self.sense_gathered(start, stream.is_some());
        read.blocked = self.blocked().since(before);
        read.pages.extend_from_slice(self.scratch.pages());
        read.pages.sort_by_key(|page| page.sensed);
        read.pieces.extend(self.scratch.pieces().iter().map(|piece: &Piece| OnItsWay {
            units: piece.units,
            ready: Some(piece.ready.max(start)),
            sent: false,
        }));
        for page in &read.pages {
            read.pieces[page.piece as usize].ready = None;
        }
        for &(piece, _, _) in &read.awaited {
            read.pieces[piece as usize].ready = None;
        }
        (read.start, read.end, read.sequential) = (start, start, stream.is_some());
        self.large_reads.reads[number as usize] = read;
        let pages = self.go_on_with_large_read(number, start);
        if let Some(stream) = stream {
            self.fetch_ahead_in_time(stream, start);
        }
        (number, pages)
    }

    /// Goes on with read `number`, whose instant `now` has come.
    pub(crate) fn go_on_with_large_read(&mut self, number: u32, now: Instant) -> Pages {
        let mut read = std::mem::take(&mut self.large_reads.reads[number as usize]);
        while let Some(page) = read.pages.get(read.asked).filter(|page| page.sensed <= now) {
            let channel = Resource::Channel(self.geometry.channel_of(page.die));
            let transfer = self.unit_over_channel * u64::from(page.units);
            let ready =
                self.resources.reserve_in_turn(channel, Class::Read, page.sensed, transfer).end;
            read.pieces[page.piece as usize].ready = Some(ready);
            if read.last.is_none_or(|(last, _)| ready > last) {
                read.last = Some((ready, read.asked));
            }
            read.asked += 1;
        }
        self.look_at_awaited(&mut read);
        self.send_ready(&mut read, now);
        let pages = match read.next_at(self.timing.delivery) {
            Some(at) => Pages::Until(at),
            None => {
                self.account_for(&read);
                self.large_reads.free.push(number);
                Pages::Delivered(read.end)
            }
        };
        self.large_reads.reads[number as usize] = read;
        pages
    }

    /// Looks when what was read ahead is there for the pieces that wait for it.
    fn look_at_awaited(&self, read: &mut LargeRead) {
        let pieces = &mut read.pieces;
        read.awaited.retain_mut(|(piece, fetch, look_at)| match self.fetches.arrival(*fetch) {
            FetchedAt::Known(ready) => {
                pieces[*piece as usize].ready = Some(ready);
                false
            }
            FetchedAt::NotBefore(at) => {
                *look_at = at;
                true
            }
        });
    }

    /// Sends the host what may be sent of what is ready at `now`.
    fn send_ready(&mut self, read: &mut LargeRead, now: Instant) {
        let is_ready = |piece: &OnItsWay| piece.ready.is_some_and(|ready| ready <= now);
        let delivery = self.timing.delivery;
        if delivery == Delivery::WhenComplete && !read.pieces.iter().all(is_ready) {
            return;
        }
        for piece in read.pieces.iter_mut().filter(|piece| !piece.sent) {
            if !is_ready(piece) {
                match delivery {
                    Delivery::InOrder => return,
                    Delivery::AnyOrder | Delivery::WhenComplete => continue,
                }
            }
            let transfer = self.unit_to_host * u64::from(piece.units);
            let link = Resource::LinkToHost;
            let span = self.resources.reserve_in_turn(link, Class::Read, now, transfer);
            read.end = read.end.max(span.end);
            piece.sent = true;
        }
    }

    /// Adds what the latest page took, and what it waited for, to the delays of reads. Of a
    /// sequential read that is what was not read ahead, if that came last.
    fn account_for(&mut self, read: &LargeRead) {
        let arrivals = read.pieces.iter().filter_map(|piece| piece.ready);
        let ready = arrivals.fold(read.start, Instant::max);
        let parts = &mut self.delays.reads.parts;
        parts.link += read.end.since(ready);
        let last = read.last.filter(|&(last, _)| last == ready);
        let Some(page) = last.map(|(_, index)| &read.pages[index]) else {
            parts.flash_read += ready.since(read.start);
            self.delays.not_critical += read.blocked;
            return;
        };
        parts.link += self.unit_over_channel * u64::from(page.units);
        if read.sequential {
            parts.read_ahead_miss += page.sensed.since(read.start);
            self.delays.not_critical += read.blocked;
            return;
        }
        let first = PhysicalUnit(page.page * self.geometry.units_per_page());
        self.delays.reads.parts.flash_read += self.page_read_of(first);
        self.delays.not_critical += read.blocked.since(page.blocked);
    }
}
