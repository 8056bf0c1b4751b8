//! Read-ahead: a drive that sees a sequential stream fetches what comes next.
//!
//! It works in segments, aligned ranges of logical units. A segment is fetched ahead only while
//! it is whole inside the flash, that is, while its units still lie one after the other as the
//! write stream laid them: the controller then streams program unit after program unit without
//! asking the map for each. A segment with a unit that was overwritten since is left to the
//! request itself. This is how a file that is sequential for the host stops being sequential for
//! the drive.

use std::ops::Range;

use crate::flash::Flash;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::units::{Instant, LogicalUnit, PhysicalUnit};

/// Sequential streams told apart at a time. No maker says how many; a few are compared with each
/// request that is read, and the published protocols read one at a time.
const STREAMS: usize = 4;

/// How a drive reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadParameters {
    /// How far ahead of the last request it fetches, in units; zero for no read-ahead.
    pub window: u32,
    /// Units in a segment.
    pub segment: u32,
    /// Requests that must continue the one before them until a stream counts as sequential: with
    /// 2, the third request in a row is the first to be read ahead of.
    pub trigger: u32,
}

/// When the data of a segment is in the read-ahead buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// Then.
    At(Instant),
    /// When the fetch of this number is done ([`crate::fetch`]).
    WithFetch(u32),
}

/// A segment that is in the read-ahead buffer, or on its way there.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u32,
    arrival: Arrival,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    /// Requests that continued the one before them.
    length: u32,
    fetched_until: u32,
    segments: std::collections::VecDeque<Segment>,
}

/// What is known of the host's read streams.
#[derive(Clone, Debug)]
pub(crate) struct ReadAhead {
    parameters: ReadAheadParameters,
    /// Whether streams are told apart: to read ahead of them, or for what else they are good.
    follows: bool,
    /// The unit behind each stream's last request; no request begins at `u32::MAX`. Every read is
    /// compared with all of them, so they lie together.
    next: [u32; STREAMS],
    streams: [Stream; STREAMS],
    /// Which stream the next one replaces, counted on without end: they go in turn, and one that goes
    /// on changes places with the latest.
    oldest: u32,
    /// From the first unit to behind the last of all that is held or on its way; empty where nothing
    /// is.
    held: Range<u32>,
}

impl ReadAhead {
    /// Nothing is known yet. Streams are told apart `anyway`, or to read ahead of them.
    pub(crate) fn new(parameters: ReadAheadParameters, anyway: bool) -> Self {
        let follows = anyway || parameters.window > 0;
        let streams = std::array::from_fn(|_| Stream::default());
        let next = [u32::MAX; STREAMS];
        ReadAhead { parameters, follows, next, streams, oldest: 0, held: 0..0 }
    }

    /// The same, with nothing known.
    pub(crate) fn renewed(&self) -> Self {
        ReadAhead::new(self.parameters, self.follows)
    }

    /// Whether streams are told apart.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.follows
    }

    pub(crate) fn parameters(&self) -> ReadAheadParameters {
        self.parameters
    }

    /// Forgets what was fetched of `units` units from `first`, because the host changes them; returns
    /// how many units that no request had come to are lost with that.
    #[inline(always)]
    pub(crate) fn forget(&mut self, first: u32, units: u32) -> u32 {
        // One test where nothing is held, which is so unless the host reads a stream.
        if first < self.held.end { self.forget_segments(first, first + units) } else { 0 }
    }

    #[inline(never)]
    fn forget_segments(&mut self, first: u32, end: u32) -> u32 {
        if end <= self.held.start {
            return 0;
        }
        let size = self.parameters.segment;
        let mut lost = 0;
        for (stream, &next) in self.streams.iter_mut().zip(&self.next) {
            stream.segments.retain(|segment| {
                let behind = segment.first + size;
                let stays = behind <= first || end <= segment.first;
                lost += if stays { 0 } else { behind - next.clamp(segment.first, behind) };
                stays
            });
        }
        self.note_held();
        lost
    }

    fn note_held(&mut self) {
        let segments = || self.streams.iter().flat_map(|stream| &stream.segments);
        let first = segments().map(|segment| segment.first).min().unwrap_or(0);
        let end = segments().map(|segment| segment.first + self.parameters.segment).max();
        self.held = first..end.unwrap_or(0);
    }

    /// Notes a read of `first..end`; says which stream it continues, when that is long enough to
    /// read ahead of.
    #[inline(always)]
    pub(crate) fn follow(&mut self, first: u32, end: u32) -> Option<usize> {
        if is_any(self.next, first) {
            let index = self.next.iter().position(|&next| next == first).expect("one of them");
            let latest = self.oldest.wrapping_sub(1) as usize % STREAMS;
            if index != latest {
                self.next.swap(index, latest);
                self.streams.swap(index, latest);
            }
            self.next[latest] = end;
            let stream = &mut self.streams[latest];
            stream.length += 1;
            return (stream.length >= self.parameters.trigger).then_some(latest);
        }
        let oldest = self.oldest as usize % STREAMS;
        self.oldest = self.oldest.wrapping_add(1);
        self.next[oldest] = end;
        let stream = &mut self.streams[oldest];
        stream.length = 0;
        // How far the stream before it got says nothing of this one, fetched or passed over.
        stream.fetched_until = 0;
        if !stream.segments.is_empty() {
            stream.segments.clear();
            self.note_held();
        }
        None
    }

    /// When the fetched segment that holds `unit` is there, if there is one. Segments before it are
    /// dropped: the stream has passed them.
    pub(crate) fn fetched(&mut self, stream: usize, unit: u32) -> Option<Arrival> {
        let segments = &mut self.streams[stream].segments;
        while let Some(&segment) = segments.front() {
            if unit < segment.first {
                return None;
            }
            if unit < segment.first + self.parameters.segment {
                return Some(segment.arrival);
            }
            segments.pop_front();
        }
        None
    }

    /// The next segment to fetch for `stream`, when its window has room.
    pub(crate) fn next_to_fetch(&mut self, stream: usize, logical_units: u32) -> Option<u32> {
        let ReadAheadParameters { window, segment, .. } = self.parameters;
        let next = self.next[stream];
        let stream = &mut self.streams[stream];
        let first = stream.fetched_until.max(next.next_multiple_of(segment));
        let end = u64::from(first) + u64::from(segment);
        let reach = u64::from(next) + u64::from(window);
        if end > reach || end > u64::from(logical_units) {
            return None;
        }
        stream.fetched_until = end as u32;
        Some(first)
    }

    /// Notes that the segment at `first` is fetched.
    pub(crate) fn note_fetched(&mut self, stream: usize, first: u32, arrival: Arrival) {
        self.streams[stream].segments.push_back(Segment { first, arrival });
        self.note_held();
    }
}

/// Whether one of the four is `unit`, all at once.
#[inline(always)]
fn is_any(four: [u32; STREAMS], unit: u32) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_set_epi32, _mm_set1_epi32,
        };
        let [a, b, c, d] = four.map(u32::cast_signed);
        // SAFETY: every processor of this architecture has SSE2, which is all that is needed.
        unsafe {
            let same =
                _mm_cmpeq_epi32(_mm_set_epi32(d, c, b, a), _mm_set1_epi32(unit.cast_signed()));
            _mm_movemask_epi8(same) != 0
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    four.contains(&unit)
}

/// Whether `units` units from `first` lie in the flash as one write stream laid them: each right
/// behind the one before it, or at the start of a program unit where that one is the last in
/// another. Behind it there may be padding, what SLC mode leaves unused, or what is not current.
pub(crate) fn is_whole(
    map: &impl Mapping,
    flash: &Flash,
    geometry: &Geometry,
    first: LogicalUnit,
    units: u32,
) -> bool {
    let Some(mut previous) = map.get(first) else {
        return false;
    };
    for unit in first.0 + 1..first.0 + units {
        let Some(physical) = map.get(LogicalUnit(unit)) else {
            return false;
        };
        if physical.0 != previous.0 + 1
            && !(geometry.starts_program(physical)
                && is_last_current(map, flash, geometry, previous))
        {
            return false;
        }
        previous = physical;
    }
    true
}

/// Whether nothing that is current lies behind `unit` in its program unit.
fn is_last_current(
    map: &impl Mapping,
    flash: &Flash,
    geometry: &Geometry,
    unit: PhysicalUnit,
) -> bool {
    let mut behind = PhysicalUnit(unit.0 + 1);
    while !geometry.starts_program(behind) {
        if flash.logical_at(behind).is_some_and(|logical| map.lies_at(logical, behind)) {
            return false;
        }
        behind = PhysicalUnit(behind.0 + 1);
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::pending::Step;
    use crate::profile::Profile;
    use crate::ssd::Ssd;
    use crate::units::{Instant, LogicalUnit, Nanoseconds, Sector, SectorCount};

    /// A drive of 192 MiB that reads 1 MiB ahead in segments of 128 KiB.
    fn drive(changes: &[(&str, &str)]) -> Ssd {
        let mut profile = Profile::named(crate::profile::DEFAULT).expect("the default profile");
        let small = [
            ("capacity.logical", "192M"),
            ("capacity.physical", "384M"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "36"),
            ("read_ahead.window", "1M"),
            ("read_ahead.segment", "128K"),
        ];
        for (key, value) in small.iter().chain(changes) {
            profile.set(key, value).expect("a sound value");
        }
        Ssd::new(&profile.configuration().expect("a sound profile")).expect("a sound drive")
    }

    /// Fills `units` units in order, and leaves the drive alone for a moment, which empties the
    /// buffer and no cache.
    fn fill(ssd: &mut Ssd, units: u32) -> Instant {
        let mut at = Instant::START;
        for unit in (0..units).step_by(32) {
            at = ssd.write(at, LogicalUnit(unit), 32);
        }
        at + Nanoseconds::from_millis(50)
    }

    /// Reads `unit` at once, or step by step.
    fn read(ssd: &mut Ssd, at: Instant, unit: u32, in_steps: bool) -> Instant {
        if !in_steps {
            return ssd.read(at, LogicalUnit(unit), 1);
        }
        let size = ssd.geometry().unit_size();
        let first = Sector::at(size * u64::from(unit));
        let mut step = ssd.begin_read(at, first, SectorCount::of(size));
        loop {
            match step {
                Step::Answered(end) => return end,
                Step::Waits(waiting) => step = ssd.go_on(waiting),
            }
        }
    }

    #[test]
    fn a_write_elsewhere_costs_a_stream_nothing_and_one_within_its_segment() {
        for in_steps in [false, true] {
            let pages_read = |write: &dyn Fn(u32) -> Option<u32>, trims: bool| {
                let mut ssd = drive(&[]);
                let mut at = fill(&mut ssd, 16_384);
                let before = ssd.counters();
                for unit in 0..1024 {
                    at = read(&mut ssd, at, unit, in_steps);
                    match write(unit) {
                        Some(other) if trims => at = ssd.trim(at, LogicalUnit(other), 1),
                        Some(other) => at = ssd.write(at, LogicalUnit(other), 1),
                        None => {}
                    }
                }
                let counted = ssd.counters().since(&before);
                (counted.flash_page_reads_host, counted.read_ahead_lost_units)
            };
            let (alone, lost) = pages_read(&|_| None, false);
            assert_eq!(lost, 0);
            for trims in [false, true] {
                let elsewhere = pages_read(&|unit| Some(8192 + unit), trims);
                assert_eq!(elsewhere, (alone, 0), "{in_steps}, {trims}");
                let behind = pages_read(&|unit| Some(unit), trims);
                assert!(behind.0 <= alone + 1024, "{in_steps}, {trims}: {behind:?}, not {alone}");
                // One unit of a segment that was read ahead: the rest of that is read anew.
                let ahead = pages_read(&|unit| (unit == 500).then_some(600), trims);
                assert!(ahead.1 == 32, "{in_steps}, {trims}: {ahead:?}");
                assert!((alone + 1..alone + 33).contains(&ahead.0), "{ahead:?}, not {alone}");
            }
        }
    }

    #[test]
    fn what_is_held_is_forgotten_with_its_stream() {
        let mut ssd = drive(&[]);
        let mut at = fill(&mut ssd, 16_384);
        for unit in 0..16 {
            at = ssd.read(at, LogicalUnit(unit), 1);
        }
        assert!(!ssd.read_ahead.held.is_empty());
        let held = ssd.read_ahead.held.clone();
        at = ssd.write(at, LogicalUnit(held.start), held.end - held.start);
        assert!(ssd.read_ahead.held.is_empty(), "{:?}", ssd.read_ahead.held);
        for unit in 1000..1016 {
            at = ssd.read(at, LogicalUnit(unit), 1);
        }
        assert!(!ssd.read_ahead.held.is_empty());
        for other in 0..4 {
            at = ssd.read(at, LogicalUnit(5000 + 100 * other), 1);
        }
        assert!(ssd.read_ahead.held.is_empty(), "other streams took its place");
    }

    /// How many of 2048 units read one by one had been read ahead.
    fn hits(ssd: &mut Ssd, mut at: Instant) -> u64 {
        for unit in 0..2048 {
            at = ssd.read(at, LogicalUnit(unit), 1);
        }
        ssd.counters().read_ahead_hit_units
    }

    #[test]
    fn a_stream_stays_one_beside_a_few_others_and_not_beside_many() {
        let hits_beside = |others: u32| {
            let mut ssd = drive(&[]);
            let mut at = fill(&mut ssd, 16_384);
            for unit in 0..1024 {
                at = ssd.read(at, LogicalUnit(unit), 1);
                for other in 0..others {
                    // Neighbours are read seven apart, so that none continues another.
                    let other = 4096 + (unit * others + other) * 7 % 8192;
                    at = ssd.read(at, LogicalUnit(other), 1);
                }
            }
            ssd.counters().read_ahead_hit_units
        };
        let alone = hits_beside(0);
        assert!(alone > 900, "{alone}");
        for others in 1..4 {
            assert_eq!(hits_beside(others), alone, "{others} others");
        }
        assert_eq!(hits_beside(4), 0);
    }

    #[test]
    fn data_in_an_slc_cache_is_read_ahead_like_any_other() {
        let slc = [
            ("slc.size", "24M"),
            ("slc.bits", "3"),
            ("slc.program", "200us"),
            ("slc.page_read", "25us"),
        ];
        let mut ssd = drive(&slc);
        let at = fill(&mut ssd, 4096);
        assert_eq!(ssd.counters().program_units_slc, 4096, "all of it is in the cache");
        let cached = hits(&mut ssd, at);
        let mut plain = drive(&[]);
        let at = fill(&mut plain, 4096);
        assert_eq!(cached, hits(&mut plain, at));
        assert!(cached > 1900, "{cached}");
    }

    #[test]
    fn padding_does_not_keep_a_segment_from_being_read_ahead_and_a_stray_unit_does() {
        let with = |flush: bool, stray: bool| {
            let mut ssd = drive(&[]);
            let mut at = Instant::START;
            for unit in (0..4096).step_by(32) {
                at = ssd.write(at, LogicalUnit(unit), 10);
                if unit == 1024 {
                    if stray {
                        at = ssd.write(at, LogicalUnit(20_000), 1);
                    }
                    if flush {
                        at = ssd.flush(at);
                    }
                }
                at = ssd.write(at, LogicalUnit(unit + 10), 22);
            }
            hits(&mut ssd, at + Nanoseconds::from_millis(50))
        };
        let plain = with(false, false);
        assert_eq!(with(true, false), plain);
        assert_eq!(with(false, true), plain - 32);
        assert_eq!(with(true, true), plain - 32, "what is not the stream's lies between");
    }
}
