//! One simulated SSD as a responder to requests by sectors.

use ssdlab_model::attribution::Attribution;
use ssdlab_model::bad_blocks::SpareBlocks;
use ssdlab_model::counters::{Counters, Wear};
use ssdlab_model::format::FormatError;
use ssdlab_model::ftl::{self, Host, RequestTag, Ssd};
use ssdlab_model::mapping::Mapping;
use ssdlab_model::snapshot::{Encoder, SnapshotError};
use ssdlab_units::{ByteLength, Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

use crate::recording::{Camera, Recorder};

use super::responder::{Answer, Client, Kind, Port, Request, Responder, StepResponder, Tag};

/// A trim of more than one command. The commands are sent one after the other, each when the one before is
/// answered, as a host does that keeps to the drive's limits.
#[derive(Clone, Copy, Debug)]
struct LongTrim {
    tag: Tag,
    sent: Instant,
    next: Sector,
    left: SectorCount,
}

/// Lent tables are copied to the drive's own memory after one request for each 128 units of flash: with
/// lent tables each request costs 0.1 to 0.2 us more, and copying costs 1 to 2 ns a unit.
const UNITS_PER_REQUEST: u64 = 128;

/// A simulated SSD, the long trims in flight on it, and the camera that records it.
pub(crate) struct SingleSsd<M: Mapping> {
    ssd: Ssd<M>,
    /// Number of requests after which the drive copies its tables to its own memory.
    lent_tables_until: u64,
    trims: Vec<LongTrim>,
    camera: Option<Box<Camera>>,
}

impl<M: Mapping + Clone> Clone for SingleSsd<M> {
    fn clone(&self) -> Self {
        SingleSsd {
            ssd: self.ssd.clone(),
            lent_tables_until: self.lent_tables_until,
            trims: self.trims.clone(),
            camera: self.camera.as_ref().map(|it| Box::new(it.of_copy())),
        }
    }
}

impl<M: Mapping> SingleSsd<M> {
    pub(crate) fn new(ssd: Ssd<M>) -> SingleSsd<M> {
        let units = u64::from(ssd.geometry().physical_units());
        let lent_tables_until = ssd.counters().requests + units / UNITS_PER_REQUEST;
        SingleSsd { ssd, lent_tables_until, trims: Vec::new(), camera: None }
    }
}

/// Receives requests by sectors.
struct SectorPort<'a, 'p> {
    port: &'a mut ftl::Port<'p>,
    trims: &'a mut Vec<LongTrim>,
}

impl Port for SectorPort<'_, '_> {
    #[inline(always)]
    fn submit(&mut self, at: Instant, tag: Tag, request: Request) {
        let Request { kind, first, count } = request;
        let to = RequestTag(tag.0);
        match kind {
            Kind::Read => self.port.read(at, to, first, count),
            Kind::Write => self.port.write(at, to, first, count, false),
            Kind::WriteThrough => self.port.write(at, to, first, count, true),
            Kind::Trim => self.trim(at, tag, first, count),
            Kind::Flush => self.port.submit(at, to, ftl::Command::Flush),
        }
    }
}

impl SectorPort<'_, '_> {
    fn trim(&mut self, at: Instant, tag: Tag, first: Sector, count: SectorCount) {
        let piece = self.port.trim_command(first, count);
        if piece < count {
            let left = SectorCount(count.0 - piece.0);
            self.trims.push(LongTrim { tag, sent: at, next: first + piece, left });
        }
        self.port.trim(at, RequestTag(tag.0), first, piece);
    }

    /// Sends the next command of the trim that `answer` belongs to, if the trim has several commands.
    /// Returns the answer if it completes the whole request.
    #[cold]
    fn continue_trim(&mut self, answer: Answer) -> Option<Answer> {
        let Some(place) = self.trims.iter().position(|it| it.tag == answer.tag) else {
            return Some(answer);
        };
        let LongTrim { tag, sent, next, left } = self.trims[place];
        if left.0 == 0 {
            self.trims.swap_remove(place);
            return Some(Answer { sent, ..answer });
        }
        let piece = self.port.trim_command(next, left);
        self.trims[place].next = next + piece;
        self.trims[place].left = SectorCount(left.0 - piece.0);
        self.port.trim(answer.at, RequestTag(tag.0), next, piece);
        None
    }
}

/// Presents a client as the model's host.
struct SectorHost<'a, C> {
    client: &'a mut C,
    trims: &'a mut Vec<LongTrim>,
    shift: u32,
}

impl<C: Client> Host for SectorHost<'_, C> {
    #[inline(always)]
    fn is_alone(&self) -> bool {
        C::SENDS_WHEN_ANSWERED
    }

    #[inline(always)]
    fn answered(&mut self, port: &mut ftl::Port<'_>, answer: ftl::Answer) -> Option<LogicalUnit> {
        let mut answer = Answer { tag: Tag(answer.tag.0), sent: answer.sent, at: answer.at };
        let port = &mut SectorPort { port, trims: self.trims };
        if !port.trims.is_empty() {
            answer = port.continue_trim(answer)?;
        }
        let upcoming = self.client.answered(port, answer)?;
        Some(LogicalUnit((upcoming.0 >> self.shift) as u32))
    }
}

impl<M: Mapping> Responder for SingleSsd<M> {
    fn capacity(&self) -> ByteLength {
        self.ssd.geometry().capacity()
    }

    fn block_size(&self) -> ByteLength {
        Sector::SIZE
    }

    fn submit(&mut self, at: Instant, tag: Tag, request: Request) {
        SectorPort { port: &mut self.ssd.port(), trims: &mut self.trims }.submit(at, tag, request);
    }

    fn latest_event(&self) -> Instant {
        self.ssd.now()
    }

    fn next_due(&self) -> Option<Instant> {
        self.ssd.next_due()
    }

    fn advance(&mut self, until: Instant, answers: &mut Vec<Answer>) -> bool {
        let shift = self.ssd.geometry().sectors_per_unit_shift();
        let mut host = SectorHost { client: answers, trims: &mut self.trims, shift };
        self.ssd.single_step(until, &mut host)
    }

    fn prefetch(&self, sector: Sector) {
        self.ssd.prefetch_map_of_sector(sector);
    }

    fn passes_trim(&self) -> bool {
        true
    }

    fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        self.ssd.rest(from, duration);
    }

    fn counters(&self) -> Counters {
        self.ssd.counters()
    }

    fn wear(&self) -> Wear {
        self.ssd.wear()
    }

    fn unused_flash(&self) -> ByteLength {
        self.ssd.unused_flash()
    }

    fn spare_blocks(&self) -> Option<SpareBlocks> {
        self.ssd.spare_blocks()
    }

    fn pages_by_die(&self, first: Sector, length: ByteLength) -> Option<Vec<u32>> {
        let unit = self.ssd.geometry().unit_size();
        let offset = SectorCount(first.0).length();
        let (from, until) = (offset.whole(unit), (offset + length).bytes().div_ceil(unit.bytes()));
        Some(self.ssd.pages_by_die(LogicalUnit(from as u32), (until - from) as u32))
    }

    fn format(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.ssd.format(at)
    }

    fn secure_erase(&mut self, at: Instant) -> Result<Instant, FormatError> {
        self.ssd.secure_erase(at)
    }

    fn store(&mut self, now: Instant, duration: Nanoseconds) -> bool {
        self.ssd.store(Nanoseconds::new(now.nanos()), duration)
    }

    fn attribution(&self) -> Attribution {
        self.ssd.attribution()
    }

    fn shut_down(&mut self, at: Instant) -> Instant {
        self.ssd.shut_down(at)
    }

    fn record_inside(&mut self, recorder: &Recorder) {
        self.camera = Some(Box::new(Camera::new(recorder.clone())));
    }

    fn is_recorded(&self) -> bool {
        self.camera.is_some()
    }

    fn begin_step(&mut self, name: &str) {
        if let Some(camera) = &mut self.camera {
            camera.begin_step(name, &self.ssd);
        }
    }

    fn record_if_due(&mut self) {
        if let Some(camera) = &mut self.camera {
            camera.record_if_due(&self.ssd);
        }
        if self.ssd.has_lent_tables() && self.ssd.counters().requests > self.lent_tables_until {
            self.ssd.copy_tables_to_owned();
        }
    }

    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        self.ssd.save(to)
    }
}

impl<M: Mapping> StepResponder for SingleSsd<M> {
    #[inline(always)]
    fn step(&mut self, until: Instant, client: &mut impl Client) -> bool {
        let shift = self.ssd.geometry().sectors_per_unit_shift();
        self.ssd.step(until, &mut SectorHost { client, trims: &mut self.trims, shift })
    }
}
