//! Latencies as an HdrHistogram interval log (version 2, compressed), which HdrHistogram's own and other
//! tools read: one line per histogram, its name as the tag, nanoseconds as values.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::report::{LatencyHistogram, Report};

/// Largest latency of the histograms: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// Returns the log as text. The interval of each histogram is the whole run, since a report does not record
/// the times of requests. Values are exact to the width of the report's buckets, which is 3 %.
///
/// # Errors
/// Returns an error if the library cannot encode a histogram.
pub fn log(report: &Report) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let seconds = report.cost.simulated_seconds.unwrap_or(report.cost.wall_seconds);
    let length = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
    let start = report.started.parse::<jiff::Timestamp>().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let title = format!("{} on {}, by ssdlab", report.experiment, report.target.name);
    let title: String = title.chars().filter(|letter| !letter.is_control()).collect();
    let mut builder = IntervalLogWriterBuilder::new();
    let begun = builder
        .add_comment(&title)
        .add_comment("values in ns, to 3 %")
        .with_start_time(SystemTime::from(start))
        .with_base_time(SystemTime::from(start))
        .begin_log_with(&mut bytes, &mut serializer);
    let mut writer = begun.map_err(|error| error.to_string())?;
    for histogram in &report.histograms {
        let name: String = histogram.name.chars().map(tag_letter).collect();
        let values = histogram_of(histogram)?;
        writer
            .write_histogram(&values, Duration::ZERO, length, Tag::new(&name))
            .map_err(|error| format!("{}: {error}", histogram.name))?;
    }
    drop(writer);
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn tag_letter(letter: char) -> char {
    if letter.is_control() || letter.is_whitespace() || letter == ',' { '_' } else { letter }
}

fn histogram_of(from: &LatencyHistogram) -> Result<Histogram<u64>, String> {
    let mut values = Histogram::new_with_bounds(1, LONGEST, 3).map_err(|it| it.to_string())?;
    for (us, count) in from.bucket_us.iter().zip(&from.bucket_count) {
        let nanos = ((us * 1e3) as u64).clamp(1, LONGEST);
        values.record_n(nanos, *count).map_err(|error| error.to_string())?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::report::Percentile;

    #[test]
    fn the_library_reads_back_what_was_written() {
        let histogram = LatencyHistogram {
            name: "read of, all".to_owned(),
            count: 1000,
            mean_us: 10.5,
            percentiles: vec![Percentile { percent: 50.0, us: 10.0 }],
            bucket_us: vec![10.0, 20.0],
            bucket_count: vec![950, 50],
        };
        let mut report = crate::import::empty_report();
        report.started = "2024-01-02T03:04:05Z".to_owned();
        report.cost.wall_seconds = 2.5;
        report.histograms = vec![histogram];
        let text = log(&report).unwrap();
        let mut found = 0;
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                assert_eq!(interval.tag().unwrap().as_str(), "read_of__all");
                assert_eq!(interval.duration(), Duration::from_millis(2500));
                let encoded = base64_decoded(interval.encoded_histogram());
                let read: Histogram<u64> =
                    Deserializer::new().deserialize(&mut encoded.as_slice()).unwrap();
                assert_eq!((read.len(), read.value_at_quantile(0.5) / 100), (1000, 100));
                found += 1;
            }
        }
        assert_eq!(found, 1);
    }

    /// Decodes base64 (the encoding of the log).
    fn base64_decoded(text: &str) -> Vec<u8> {
        const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
        for letter in text.chars().filter_map(|letter| LETTERS.find(letter)) {
            (bits, count) = (bits << 6 | letter as u32, count + 6);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        bytes
    }
}
