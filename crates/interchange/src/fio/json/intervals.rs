//! Results of a job between two of fio's reports (`--status-interval`): each report has the sums from the start, so the
//! difference of two gives the interval between them, latencies included.

use super::{JobOutput, SideOutput};

/// Results of a job between one report and the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// End of the interval, in seconds since the job's start.
    pub until: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Results of reads, writes and trims, in this order.
    pub parts: [KindSums; 3],
}

/// Results of one kind of request in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindSums {
    /// Number of completed requests.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Histogram of latencies: nanoseconds, ascending, and number of requests; empty if fio reported none (`json+`
    /// does).
    pub bins: Vec<(u64, u64)>,
}

impl Interval {
    /// Returns the end of the interval in seconds, and its throughput in MB/s.
    pub(super) fn curve_point(&self) -> (f64, f64) {
        let bytes: f64 = self.parts.iter().map(|part| part.bytes as f64).sum();
        (self.until, bytes / 1e6 / self.seconds)
    }
}

/// Collects the intervals of all jobs from report to report. It keeps differences only, because the reports of a day
/// are large.
#[derive(Default)]
pub(super) struct IntervalRecorder {
    jobs: Vec<JobIntervals>,
}

#[derive(Default)]
struct JobIntervals {
    /// Milliseconds and sums of the previous report.
    before: (u64, [KindSums; 3]),
    intervals: Vec<Interval>,
}

impl IntervalRecorder {
    /// Adds a report; the order of the jobs is the same in all reports.
    pub(super) fn add_report(&mut self, jobs: &[JobOutput]) {
        self.jobs.resize_with(jobs.len(), JobIntervals::default);
        for (known, job) in self.jobs.iter_mut().zip(jobs) {
            let sides = [&job.read, &job.write, &job.trim];
            let until = sides.iter().map(|side| side.runtime).max().unwrap_or(0);
            known.add_report(until, sides.map(sums_of));
        }
    }

    /// Returns the intervals of each job.
    pub(super) fn intervals(self) -> impl Iterator<Item = Vec<Interval>> {
        self.jobs.into_iter().map(|job| job.intervals)
    }
}

impl JobIntervals {
    fn add_report(&mut self, until: u64, sums: [KindSums; 3]) {
        let (from, before) = &self.before;
        let bytes =
            |parts: &[KindSums; 3]| parts.iter().map(|part| u128::from(part.bytes)).sum::<u128>();
        if until <= *from || bytes(&sums) < bytes(before) {
            return;
        }
        let [read, write, trim] = &sums;
        self.intervals.push(Interval {
            until: until as f64 / 1e3,
            seconds: (until - from) as f64 / 1e3,
            parts: [read.since(&before[0]), write.since(&before[1]), trim.since(&before[2])],
        });
        self.before = (until, sums);
    }
}

impl KindSums {
    fn since(&self, before: &KindSums) -> KindSums {
        let mut earlier = before.bins.iter().peekable();
        let difference = |&(nanos, count): &(u64, u64)| {
            while earlier.next_if(|bin| bin.0 < nanos).is_some() {}
            let known = earlier.next_if(|bin| bin.0 == nanos).map_or(0, |bin| bin.1);
            (count > known).then(|| (nanos, count - known))
        };
        KindSums {
            requests: self.requests.saturating_sub(before.requests),
            bytes: self.bytes.saturating_sub(before.bytes),
            bins: self.bins.iter().filter_map(difference).collect(),
        }
    }
}

/// Returns the sums of a report. The histogram is that of the whole latency, or of the completion latency if fio
/// reports only that.
fn sums_of(side: &SideOutput) -> KindSums {
    let has_bins = |latency: &&super::LatencyOutput| !latency.bins.is_empty();
    let latency = side.lat_ns.as_ref().filter(has_bins).or(side.clat_ns.as_ref());
    let bins = latency.map(|latency| &latency.bins);
    let number = |(nanos, count): (&String, &u64)| Some((nanos.parse().ok()?, *count));
    let mut bins: Vec<(u64, u64)> = bins.into_iter().flatten().filter_map(number).collect();
    bins.sort_unstable();
    KindSums { requests: side.total_ios, bytes: side.io_bytes, bins }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(requests: u64, bins: &[(u64, u64)]) -> [KindSums; 3] {
        let part = KindSums { requests, bytes: requests * 4096, bins: bins.to_vec() };
        [KindSums::default(), part, KindSums::default()]
    }

    #[test]
    fn what_came_between_two_reports_is_their_difference() {
        let mut job = JobIntervals::default();
        job.add_report(1_000, sums(30, &[(10, 20), (50, 10)]));
        // The same report once more, and one of a job that made no progress.
        job.add_report(1_000, sums(30, &[(10, 20), (50, 10)]));
        job.add_report(3_500, sums(100, &[(10, 20), (20, 5), (50, 70), (90, 5)]));
        let [first, second] = &job.intervals[..] else { panic!("{:?}", job.intervals) };
        assert_eq!((first.until, first.seconds, first.parts[1].requests), (1.0, 1.0, 30));
        assert_eq!((second.until, second.seconds, second.parts[1].requests), (3.5, 2.5, 70));
        assert_eq!(second.parts[1].bins, [(20, 5), (50, 60), (90, 5)]);
        assert_eq!(second.curve_point(), (3.5, 70.0 * 4096.0 / 1e6 / 2.5));
    }
}
