//! Read-ahead: a drive that sees a sequential stream fetches what comes next.
//!
//! It works in segments, aligned ranges of logical units. A segment is fetched ahead only while
//! it is whole inside the flash, that is, while its units still lie one after the other as the
//! write stream laid them: the controller then streams program unit after program unit without
//! asking the map for each. A segment with a unit that was overwritten since is left to the
//! request itself. This is how a file that is sequential for the host stops being sequential for
//! the drive.

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
    /// The unit behind each stream's last request; no request begins at `u32::MAX`. Every read is
    /// compared with all of them, so they lie together.
    next: [u32; STREAMS],
    streams: [Stream; STREAMS],
    oldest: usize,
    fetched: bool,
}

impl ReadAhead {
    pub(crate) fn new(parameters: ReadAheadParameters) -> Self {
        let streams = std::array::from_fn(|_| Stream::default());
        ReadAhead { parameters, next: [u32::MAX; STREAMS], streams, oldest: 0, fetched: false }
    }

    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.parameters.window > 0
    }

    pub(crate) fn parameters(&self) -> ReadAheadParameters {
        self.parameters
    }

    /// Forgets what was fetched, because the host changes data.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        if self.fetched {
            self.forget_segments();
        }
    }

    #[inline(never)]
    fn forget_segments(&mut self) {
        for stream in &mut self.streams {
            stream.segments.clear();
            stream.fetched_until = 0;
        }
        self.fetched = false;
    }

    /// Notes a read of `first..end`; says which stream it continues, when that is long enough to
    /// read ahead of.
    #[inline(always)]
    pub(crate) fn follow(&mut self, first: u32, end: u32) -> Option<usize> {
        if self.next.contains(&first) {
            let index = self.next.iter().position(|&next| next == first).expect("one of them");
            self.next[index] = end;
            let stream = &mut self.streams[index];
            stream.length += 1;
            return (stream.length >= self.parameters.trigger).then_some(index);
        }
        let oldest = self.oldest % STREAMS;
        self.next[oldest] = end;
        let stream = &mut self.streams[oldest];
        stream.length = 0;
        // How far the stream before it got says nothing of this one, fetched or passed over.
        stream.fetched_until = 0;
        if self.fetched {
            stream.segments.clear();
        }
        self.oldest = (oldest + 1) % STREAMS;
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
        self.fetched = true;
    }
}

/// Whether `units` units from `first` lie in the flash as one write stream laid them: each right
/// behind the one before it, or at the start of a program unit where that one ends another.
pub(crate) fn is_whole(
    map: &impl Mapping,
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
                && geometry.starts_program(PhysicalUnit(previous.0 + 1)))
        {
            return false;
        }
        previous = physical;
    }
    true
}
