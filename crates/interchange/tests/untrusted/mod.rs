//! Any bytes as what other programs write: nothing may panic, hang or take memory without end.
//! Fuzz targets and property tests call the same functions.

use ssdlab_drive::Source;
use ssdlab_interchange::fio::JobFile;
use ssdlab_interchange::fio::work::{Space, Work};
use ssdlab_interchange::trace::{Choice, Format, Reader, Survey};
use ssdlab_units::{ByteLength, Nanoseconds};

/// The most requests drawn of a job: some run for ever.
const MOST: usize = 1000;

/// A job file: it is refused with a line that it has, or its requests stay on the target.
pub fn job(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.lines().count() as u64;
    let file = match JobFile::parse(text) {
        Ok(file) => file,
        Err(error) => return assert!(error.line.is_none_or(|line| (1..=lines).contains(&line))),
    };
    let capacity = ByteLength::new(1 << 30);
    let space = Space { capacity, unit: ByteLength::new(512), is_fixed: true };
    for job in file.jobs().take(8) {
        let _ = job.settings();
        let Ok(work) = Work::new(job, space) else { continue };
        let _ = (work.bytes(), work.time(), work.phase(1, Nanoseconds::ZERO));
        for lane in work.lanes(1, Nanoseconds::ZERO).iter_mut().take(2) {
            drain(&mut *lane.source, capacity);
        }
    }
}

fn drain(source: &mut dyn Source, capacity: ByteLength) {
    for _ in 0..MOST {
        let Some(request) = source.next_request().expect("jobs do not fail") else { return };
        assert!(request.region.end() <= capacity);
    }
}

/// A trace: it is refused with a line that it has, or read to its end with times that never go
/// back. The first byte picks the form.
pub fn trace(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(*first)).map(|(format, _)| *format);
    let lines = rest.split(|byte| *byte == b'\n').count() as u64;
    let in_it = |line: Option<u64>| line.is_none_or(|line| (1..=lines).contains(&line));
    let mut reader = match Reader::new(rest, format) {
        Ok(reader) => reader,
        Err(error) => return assert!(in_it(error.line), "{error}"),
    };
    let mut last = Nanoseconds::ZERO;
    loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                assert!(event.at >= last && in_it(Some(event.line)));
                last = event.at;
            }
            Ok(None) => break,
            Err(error) => return assert!(in_it(error.line), "{error}"),
        }
    }
    let again = Reader::new(rest, format).expect("it was understood before");
    let _ = Survey::of(again, &Choice::default());
}

/// What fio printed: it is refused, or its figures are numbers.
pub fn result(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.lines().count().max(1) as u64;
    match ssdlab_interchange::fio::json::parse(text) {
        Err(error) => assert!(error.line.is_none_or(|line| (1..=lines).contains(&line))),
        Ok(run) => {
            for side in run.jobs.iter().flat_map(|job| &job.sides) {
                for percent in [50.0, 99.0, 99.9] {
                    assert!(side.percentile(percent).is_none_or(f64::is_finite));
                }
            }
        }
    }
}
