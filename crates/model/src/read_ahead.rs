//! Read-ahead: a drive that detects a sequential stream reads the next data before it is requested.
//!
//! Read-ahead works in segments, aligned ranges of logical units. A segment is read ahead only while it is whole
//! inside the flash, that is, while its units are still consecutive as the write stream placed them: the controller
//! then streams program unit after program unit without a map lookup for each. A segment with a unit that was
//! overwritten since is left to the request itself. That is how a file that is sequential for the host stops being
//! sequential for the drive.

use std::ops::Range;

use crate::block_table::BlockTable;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::units::{LogicalUnit, PhysicalUnit};

/// Number of sequential streams told apart. No maker publishes it; a few are compared with each read request, and the
/// published protocols read one at a time.
const STREAMS: usize = 4;

/// Parameters of read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadParameters {
    /// Distance ahead of the last request up to which the drive reads, in units; zero for no read-ahead.
    pub window: u32,
    /// Units in a segment.
    pub segment: u32,
    /// Number of requests that must continue the one before them until a stream counts as sequential: with 2, the
    /// third consecutive request is the first with read-ahead.
    pub trigger: u32,
}

/// Moment at which the data of a segment is in the read-ahead buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// The data is in the buffer.
    InRam,
    /// At the end of the load of the segment with this number.
    WithSegment(u32),
}

/// A segment that is in the read-ahead buffer, or on its way there.
#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u32,
    arrival: Arrival,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    /// Number of requests that continued the one before them.
    length: u32,
    read_until: u32,
    segments: std::collections::VecDeque<Segment>,
}

/// State of the host's read streams.
#[derive(Clone, Debug)]
pub(crate) struct ReadAhead {
    parameters: ReadAheadParameters,
    /// True if streams are told apart, for read-ahead or for another mechanism.
    detects_streams: bool,
    /// End of each stream's last request, as the unit behind it; no request begins at `u32::MAX`. Every read is
    /// compared with all of them, so they are stored together.
    next: [u32; STREAMS],
    streams: [Stream; STREAMS],
    /// Index of the stream that the next new one replaces, modulo the number of streams: streams are replaced in
    /// turn, and one that continues changes places with the latest.
    oldest: u32,
    /// Range from the first to the last unit of all segments in the buffer or on their way; empty if there is none.
    buffered: Range<u32>,
}

impl ReadAhead {
    /// Returns the state without known streams. Streams are told apart for read-ahead, or if `anyway` is true.
    pub(crate) fn new(parameters: ReadAheadParameters, anyway: bool) -> Self {
        let detects_streams = anyway || parameters.window > 0;
        let streams = std::array::from_fn(|_| Stream::default());
        let next = [u32::MAX; STREAMS];
        ReadAhead { parameters, detects_streams, next, streams, oldest: 0, buffered: 0..0 }
    }

    /// Returns the state of the same drive without known streams.
    pub(crate) fn empty_like(&self) -> Self {
        ReadAhead::new(self.parameters, self.detects_streams)
    }

    /// Returns true if streams are told apart.
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        self.detects_streams
    }

    pub(crate) fn parameters(&self) -> ReadAheadParameters {
        self.parameters
    }

    /// Drops segments with any of `units` units from `first`, because the host changes them. Returns the number of
    /// units lost that no request had read.
    #[inline(always)]
    pub(crate) fn invalidate(&mut self, first: u32, units: u32) -> u32 {
        // A single comparison if no segment is held, which is the case unless the host reads a stream.
        if first < self.buffered.end { self.invalidate_segments(first, first + units) } else { 0 }
    }

    #[inline(never)]
    fn invalidate_segments(&mut self, first: u32, end: u32) -> u32 {
        if end <= self.buffered.start {
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
        self.update_buffered_range();
        lost
    }

    fn update_buffered_range(&mut self) {
        let segments = || self.streams.iter().flat_map(|stream| &stream.segments);
        let first = segments().map(|segment| segment.first).min().unwrap_or(0);
        let end = segments().map(|segment| segment.first + self.parameters.segment).max();
        self.buffered = first..end.unwrap_or(0);
    }

    /// Notes a read of `first..end`. Returns the index of the stream that it continues, if that stream is long enough
    /// for read-ahead.
    #[inline(always)]
    pub(crate) fn note_read(&mut self, first: u32, end: u32) -> Option<usize> {
        if contains_any(self.next, first) {
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
        // The reach of the stream replaced here says nothing about the new one.
        stream.read_until = 0;
        if !stream.segments.is_empty() {
            stream.segments.clear();
            self.update_buffered_range();
        }
        None
    }

    /// Returns the arrival of the segment that holds `unit`, or `None` if none does. Drops the segments before
    /// `unit`, which the stream has passed.
    pub(crate) fn arrival_of(&mut self, stream: usize, unit: u32) -> Option<Arrival> {
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

    /// Returns the next segment to read for `stream`, or `None` if its window is full.
    pub(crate) fn next_segment(&mut self, stream: usize, logical_units: u32) -> Option<u32> {
        let ReadAheadParameters { window, segment, .. } = self.parameters;
        let next = self.next[stream];
        let stream = &mut self.streams[stream];
        let first = stream.read_until.max(next.next_multiple_of(segment));
        let end = u64::from(first) + u64::from(segment);
        let reach = u64::from(next) + u64::from(window);
        if end > reach || end > u64::from(logical_units) {
            return None;
        }
        stream.read_until = end as u32;
        Some(first)
    }

    /// Notes that the segment at `first` is being read.
    pub(crate) fn add_segment(&mut self, stream: usize, first: u32, arrival: Arrival) {
        self.streams[stream].segments.push_back(Segment { first, arrival });
        self.update_buffered_range();
    }
}

/// Returns true if one of the four is `unit`, comparing all in one step.
#[inline(always)]
fn contains_any(four: [u32; STREAMS], unit: u32) -> bool {
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

/// Returns true if `units` units from `first` are placed in the flash as one write stream placed them: each directly
/// behind the one before it, or at the start of a program unit if the one before it is the last current unit of its
/// own. Behind that last unit there may be padding, units that SLC mode leaves unused, or units that are not current.
pub(crate) fn is_sequential_in_flash(
    map: &impl Mapping,
    block_table: &BlockTable,
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
                && is_last_current(map, block_table, geometry, previous))
        {
            return false;
        }
        previous = physical;
    }
    true
}

/// Returns true if no unit behind `unit` in its program unit is current.
fn is_last_current(
    map: &impl Mapping,
    block_table: &BlockTable,
    geometry: &Geometry,
    unit: PhysicalUnit,
) -> bool {
    let mut behind = PhysicalUnit(unit.0 + 1);
    while !geometry.starts_program(behind) {
        if block_table.logical_at(behind).is_some_and(|logical| map.is_mapped_to(logical, behind)) {
            return false;
        }
        behind = PhysicalUnit(behind.0 + 1);
    }
    true
}
