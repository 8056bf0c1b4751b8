//! Sequential streams of reads, and which segments of them have been fetched ahead.

use std::collections::VecDeque;

use super::placement::Placement;
use super::shape::Shape;

const STREAMS: usize = 4;

#[derive(Clone, Debug, Default)]
struct Stream {
    next: Option<u32>,
    length: u32,
    fetched_until: u32,
    /// First unit and number of each segment, in order.
    segments: VecDeque<(u32, usize)>,
}

#[derive(Clone, Debug, Default)]
pub struct ReadAhead {
    streams: [Stream; STREAMS],
    oldest: usize,
}

impl ReadAhead {
    /// Drops the segments of which the host changes something: `units` units from `changed` on.
    pub fn forget(&mut self, shape: &Shape, changed: u32, units: u32) {
        for stream in &mut self.streams {
            stream.segments.retain(|&(first, _)| {
                first + shape.read_ahead_segment <= changed || changed + units <= first
            });
        }
    }

    /// The stream that a read continues, once that is long enough.
    pub fn follow(&mut self, shape: &Shape, first: u32, end: u32) -> Option<usize> {
        if shape.read_ahead_window == 0 {
            return None;
        }
        if let Some(index) = self.streams.iter().position(|stream| stream.next == Some(first)) {
            let latest = (self.oldest + STREAMS - 1) % STREAMS;
            self.streams.swap(index, latest);
            let stream = &mut self.streams[latest];
            stream.next = Some(end);
            stream.length += 1;
            return (stream.length >= shape.read_ahead_trigger).then_some(latest);
        }
        self.streams[self.oldest] = Stream { next: Some(end), ..Stream::default() };
        self.oldest = (self.oldest + 1) % STREAMS;
        None
    }

    /// The fetched segment that holds `unit`.
    pub fn segment_of(&self, shape: &Shape, stream: usize, unit: u32) -> Option<usize> {
        let segments = &self.streams[stream].segments;
        let holds = |first: u32| (first..first + shape.read_ahead_segment).contains(&unit);
        segments.iter().find(|&&(first, _)| holds(first)).map(|&(_, segment)| segment)
    }

    /// The first units of the segments to fetch now. Those that do not lie in the flash as one
    /// stream wrote them are passed over.
    pub fn next_to_fetch(&mut self, shape: &Shape, placed: &Placement, stream: usize) -> Vec<u32> {
        let stream = &mut self.streams[stream];
        let next = stream.next.expect("the stream was followed");
        let segment = shape.read_ahead_segment;
        let mut first = stream.fetched_until.max(next.next_multiple_of(segment));
        let mut fetch = Vec::new();
        while first + segment <= (next + shape.read_ahead_window).min(shape.logical_units) {
            if is_whole(shape, placed, first) {
                fetch.push(first);
            }
            first += segment;
            stream.fetched_until = first;
        }
        fetch
    }

    pub fn fetched(&mut self, stream: usize, first: u32, segment: usize) {
        self.streams[stream].segments.push_back((first, segment));
    }
}

/// Returns true if each unit of the segment lies right behind the one before it, or at the start of a program unit, and
/// that one at the end of what another holds.
fn is_whole(shape: &Shape, placed: &Placement, first: u32) -> bool {
    let places: Option<Vec<_>> =
        (first..first + shape.read_ahead_segment).map(|unit| placed.place_of(unit)).collect();
    places.is_some_and(|places| {
        places.windows(2).all(|pair| {
            let follows = pair[1].block == pair[0].block && pair[1].offset == pair[0].offset + 1;
            let starts = pair[1].offset.is_multiple_of(shape.units_per_program);
            follows || (starts && placed.is_last_of_program(pair[0]))
        })
    })
}
