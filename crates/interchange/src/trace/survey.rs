//! Survey of a trace: a pass over the whole file before anything is sent. It checks every line, and finds the highest
//! address and the amount of writes.

use std::io::BufRead;

use ssdlab_drive::Operation;
use ssdlab_units::{ByteLength, Nanoseconds};

use super::{Event, Format, Reader, Stage};
use crate::error::InputError;

/// Selection of requests of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Name of the volume; `None` selects all requests, if the trace has only one volume.
    pub volume: Option<String>,
    /// Time after the first request at which the selection ends, if any.
    pub limit: Option<Nanoseconds>,
}

/// Contents of a trace, for the requests that were selected.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Format of the trace.
    pub format: Format,
    /// Stage that counts, if the trace has more than one.
    pub stage: Stage,
    /// Number of the selected volume; `None` if the trace has only one.
    pub volume: Option<u32>,
    /// Number of requests by kind: reads, writes, trims, flushes.
    pub requests: [u64; 4],
    /// Bytes by kind: read, written, trimmed.
    pub bytes: [u64; 3],
    /// End of the highest request: the first byte behind all requests.
    pub end: ByteLength,
    /// Time from the first request of the file to the last one that counts.
    pub duration: Nanoseconds,
    /// Number of requests whose time was before that of the previous one.
    pub went_back: u64,
    /// Largest power of two, at most 4096 bytes, that divides all offsets and lengths.
    pub alignment: ByteLength,
}

/// Sums over the requests of one stage.
#[derive(Clone, Copy, Default)]
struct Sums {
    requests: [u64; 4],
    bytes: [u64; 3],
    end: u64,
    last: u64,
    /// Bitwise or of all offsets and lengths.
    bits: u64,
}

/// Largest alignment that is reported, in bytes.
const MAX_ALIGNMENT: u64 = 4096;

impl Sums {
    fn add(&mut self, event: &Event) {
        let kind = match event.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Trim => 2,
            Operation::Flush => 3,
        };
        self.requests[kind] += 1;
        self.last = event.at.nanos();
        let (offset, length) = (event.region.offset.bytes(), event.region.length.bytes());
        if let Some(bytes) = self.bytes.get_mut(kind) {
            *bytes = bytes.saturating_add(length);
            self.end = self.end.max(offset + length);
            self.bits |= offset | length;
        }
    }
}

impl Survey {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// Returns an error if a line is not understood, if no request is selected, or if there are several volumes and
    /// none is selected.
    pub fn of<R: BufRead>(mut reader: Reader<R>, choice: &Choice) -> Result<Survey, InputError> {
        let (mut queued, mut issued) = (Sums::default(), Sums::default());
        let mut chosen: Option<u32> = None;
        while let Some(event) = reader.next_event()? {
            if choice.limit.is_some_and(|limit| event.at >= limit) {
                break;
            }
            if let Some(name) = &choice.volume {
                if chosen.is_none() {
                    chosen = reader.volumes().find(|(known, _)| known == name).map(|(_, it)| it);
                }
                if chosen != Some(event.volume) {
                    continue;
                }
            } else if event.volume > 0 {
                return Err(several_volumes_error(&mut reader, event.line));
            }
            let sums = if event.stage == Stage::Queued { &mut queued } else { &mut issued };
            sums.add(&event);
        }
        let has_issued = issued.requests.iter().sum::<u64>() > 0;
        let (stage, sums) =
            if has_issued { (Stage::Issued, issued) } else { (Stage::Queued, queued) };
        if sums.requests[..3].iter().sum::<u64>() == 0 {
            let what = match &choice.volume {
                Some(name) if chosen.is_none() => format!("has no volume '{name}'"),
                _ => "holds no request to replay".to_owned(),
            };
            return Err(InputError::whole(what));
        }
        Ok(Survey {
            format: reader.format(),
            stage,
            volume: chosen,
            requests: sums.requests,
            bytes: sums.bytes,
            end: ByteLength::new(sums.end),
            duration: Nanoseconds::new(sums.last),
            went_back: reader.went_back(),
            alignment: ByteLength::new(1 << (sums.bits | MAX_ALIGNMENT).trailing_zeros()),
        })
    }

    /// Returns true if a request is selected.
    pub fn counts(&self, event: &Event) -> bool {
        event.stage == self.stage && self.volume.is_none_or(|volume| event.volume == volume)
    }

    /// Returns the number of selected requests.
    pub fn count(&self) -> u64 {
        self.requests.iter().sum()
    }
}

fn several_volumes_error<R: BufRead>(reader: &mut Reader<R>, line: u64) -> InputError {
    const SHOWN: usize = 5;
    // Read on for some lines, to list the volumes to choose from.
    for _ in 0..100_000 {
        if reader.volumes().nth(SHOWN).is_some() || !matches!(reader.next_event(), Ok(Some(_))) {
            break;
        }
    }
    let mut names: Vec<(u32, &str)> = reader.volumes().map(|(name, it)| (it, name)).collect();
    names.sort_unstable();
    let some: Vec<&str> = names.iter().take(SHOWN).map(|(_, name)| *name).collect();
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    InputError::at(
        line,
        format!(
            "a second volume; choose the one to replay with volume: {}{more}",
            some.join(" or ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "7,R,0,4096,1000\n7,W,8192,512,2000\n9,W,65536,4096,3000\n";

    fn survey(text: &str, choice: Choice) -> Result<Survey, InputError> {
        Survey::of(Reader::new(text.as_bytes(), None).unwrap(), &choice)
    }

    #[test]
    fn one_volume_is_chosen_and_measured() {
        let choice = Choice { volume: Some("7".to_owned()), limit: None };
        let found = survey(TWO, choice).unwrap();
        assert_eq!((found.requests, found.bytes), ([1, 1, 0, 0], [4096, 512, 0]));
        assert_eq!(found.end, ByteLength::new(8704));
        assert_eq!(found.duration, Nanoseconds::from_millis(1));
        assert_eq!(found.alignment, ByteLength::new(512));
        let error = survey(TWO, Choice::default()).unwrap_err();
        assert_eq!(error.line, Some(3));
        assert!(error.why.contains("7 or 9"), "{error}");
        let none = Choice { volume: Some("8".to_owned()), limit: None };
        assert!(survey(TWO, none).unwrap_err().why.contains("no volume '8'"));
    }

    #[test]
    fn of_a_request_seen_twice_one_stage_counts() {
        let both = "8,0 1 1 0.5 7 Q W 16 + 8 [x]\n8,0 1 2 0.6 7 D W 16 + 8 [x]\n";
        assert_eq!(survey(both, Choice::default()).unwrap().requests, [0, 1, 0, 0]);
        let queued = "8,0 1 1 0.5 7 Q R 16 + 8 [x]\n";
        let found = survey(queued, Choice::default()).unwrap();
        assert_eq!((found.stage, found.requests), (Stage::Queued, [1, 0, 0, 0]));
    }

    #[test]
    fn a_limit_ends_it_early() {
        let choice = Choice { limit: Some(Nanoseconds::from_millis(2)), ..Choice::default() };
        assert_eq!(survey(TWO, choice).unwrap().count(), 2);
        let nothing = "fio version 2 iolog\n/a add\n";
        assert!(survey(nothing, Choice::default()).unwrap_err().why.contains("no request"));
    }
}
