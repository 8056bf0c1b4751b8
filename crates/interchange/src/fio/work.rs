//! A job applied to a target: its region and amount in bytes, and the phase or the lanes that run it.

use ssdlab_drive::addresses::Addresses;
use ssdlab_drive::arrivals::Arrivals;
use ssdlab_drive::{
    Amount, DriveError, Lane, LaneRequest, Mix, Operation, Pattern, Phase, Rate, Region, Source,
};
use ssdlab_units::{ByteLength, Nanoseconds};

use super::job::{Direction, Job, SizeOrPercent};
use crate::error::{InputError, shown};

/// Target of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Addressable bytes.
    pub capacity: ByteLength,
    /// Size of the smallest aligned request.
    pub unit: ByteLength,
    /// True if the capacity is that of a drive. A file that is to be created has no capacity of its own, so jobs must
    /// give its size.
    pub is_fixed: bool,
}

/// Job applied to a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    job: Job,
    region: Region,
    /// Number of requests of each copy; `None` if the job ends by time.
    requests: Option<u64>,
}

impl Work {
    /// Applies `job` to `space`.
    ///
    /// # Errors
    /// Returns an error if the job does not fit there.
    pub fn new(job: &Job, space: Space) -> Result<Work, InputError> {
        let name = shown(&job.name);
        let wrong = |why: String| Err(InputError::at(job.line, format!("job '{name}': {why}")));
        if job.is_relative() && !space.is_fixed {
            return wrong(
                "a file has no size of its own; give size and offset in bytes".to_owned(),
            );
        }
        let unit = space.unit;
        let block = job.block_size;
        if !block.is_multiple_of(unit) {
            return wrong(format!("bs={block} is no multiple of the target's block size, {unit}"));
        }
        // An offset in percent is rounded up to a block, as fio 3.33 does. An offset in bytes is not rounded, because
        // that would move it.
        let offset = match job.offset {
            SizeOrPercent::Percent(_) => block * job.offset.of(space.capacity).covering(block),
            SizeOrPercent::Bytes(bytes) if bytes.is_multiple_of(unit) => bytes,
            SizeOrPercent::Bytes(bytes) => {
                return wrong(format!("offset={bytes} is no multiple of {unit}"));
            }
        };
        if space.is_fixed && offset >= space.capacity {
            return wrong(format!(
                "it begins at {offset}, past the end of the target ({}); give a smaller offset",
                space.capacity
            ));
        }
        let rest = ByteLength::new(space.capacity.bytes().saturating_sub(offset.bytes()));
        let size = job.size.map_or(rest, |size| size.of(space.capacity));
        if matches!(job.size, Some(SizeOrPercent::Bytes(_))) && !size.is_multiple_of(block) {
            return wrong(format!(
                "size={size} is no multiple of bs={block}: depending on the pattern, fio would go \
                 past its end or stop before it; give a multiple"
            ));
        }
        // A share ends at the end of the target at the latest.
        let size = if job.is_relative() { size.min(rest) } else { size };
        let blocks = size.whole(block);
        if blocks == 0 {
            return wrong(format!("size={size} is less than one block of {block}"));
        }
        let region = Region { offset, length: block * blocks };
        if space.is_fixed && region.length > rest {
            return wrong(format!(
                "its region ends {} past the end of the target ({}); give a smaller size",
                ByteLength::new((region.length - rest).bytes()),
                space.capacity
            ));
        }
        // As in fio, the request that reaches the amount is the last one.
        let once = job.io_size.map_or(blocks, |amount| amount.covering(block));
        let requests = once.saturating_mul(u64::from(job.loops));
        let endless = job.time_based && job.runtime.is_some();
        Ok(Work { job: job.clone(), region, requests: (!endless).then_some(requests) })
    }

    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the region that the job addresses.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Returns the bytes that all copies transfer together; `None` if the job ends by time.
    pub fn bytes(&self) -> Option<ByteLength> {
        let requests = self.requests?.checked_mul(u64::from(self.job.copies))?;
        self.job.block_size.bytes().checked_mul(requests).map(ByteLength::new)
    }

    /// Returns the longest running time, the ramp time included; `None` if it is not limited.
    pub fn time(&self) -> Option<Nanoseconds> {
        self.job.runtime.map(|time| time + self.job.ramp)
    }

    /// Returns the job as a phase; `None` if a phase cannot express the job.
    pub fn phase(&self, seed: u64, interval: Nanoseconds) -> Option<Phase> {
        let job = &self.job;
        let is_expressible = job.copies == 1
            && job.direction != Direction::Trim
            && !self.has_two_streams()
            && job.flush_every.is_none()
            && job.think.is_none()
            && job.ramp == Nanoseconds::ZERO;
        let amount = match (self.requests, job.runtime) {
            (Some(_), None) => Amount::Bytes(self.bytes()?),
            (None, Some(time)) => Amount::Time(time),
            _ => return None,
        };
        is_expressible.then(|| Phase { amount, ..self.phase_template(seed, interval) })
    }

    /// Returns true if reads and writes are two sequential streams, each of which continues at its own place.
    fn has_two_streams(&self) -> bool {
        !self.job.random && matches!(self.job.direction, Direction::Mixed(_))
    }

    /// Returns a phase with the job's pattern and region; the caller sets the amount.
    fn phase_template(&self, seed: u64, interval: Nanoseconds) -> Phase {
        let job = &self.job;
        let read_percent = match job.direction {
            Direction::Read => 100,
            Direction::Write | Direction::Trim => 0,
            Direction::Mixed(percent) => percent,
        };
        Phase {
            name: job.name.clone(),
            pattern: match (job.random, job.distribution, job.repeats) {
                (false, ..) => Pattern::Sequential,
                (true, Some(skew), _) => Pattern::Skewed(skew),
                (true, None, true) => Pattern::Random,
                (true, None, false) => Pattern::RandomOnce,
            },
            block_size: job.block_size,
            depth: job.depth,
            mix: Mix { read_percent },
            region: self.region,
            amount: Amount::Bytes(job.block_size),
            rate: job.rate,
            seed: job.seed.unwrap_or(seed),
            flush_at_end: job.flush_at_end,
            interval,
        }
    }

    /// Returns the job as lanes, one for each copy.
    pub fn lanes(&self, seed: u64, interval: Nanoseconds) -> Vec<Lane<'static>> {
        let job = &self.job;
        let expected = self
            .requests
            .map(|count| ByteLength::new(count.saturating_mul(job.block_size.bytes())));
        let lane = |copy: u32| {
            let phase = self.phase_template(seed.wrapping_add(u64::from(copy)), interval);
            let phase = Phase { seed: phase.seed.wrapping_add(u64::from(copy) << 32), ..phase };
            Lane {
                name: job.name.clone(),
                depth: job.depth,
                time: self.time(),
                ramp: job.ramp,
                interval,
                seed: phase.seed,
                flush_at_end: job.flush_at_end,
                expected,
                source: Box::new(JobSource::new(self, &phase)),
            }
        };
        (0..job.copies).map(lane).collect()
    }
}

/// Generator of the requests of one copy of a job.
struct JobSource {
    addresses: Addresses,
    region: Region,
    block_size: ByteLength,
    trims: bool,
    left: u64,
    sent: u64,
    spacing: Option<f64>,
    arrivals: Option<Arrivals>,
    flush_every: Option<u64>,
    writes: u64,
    flushed_last: bool,
    think: Option<(u64, Nanoseconds)>,
    streams: Option<SequentialStreams>,
}

/// Positions of a sequential mix of reads and writes. As in fio 3.33, reads and writes continue at their own places,
/// and both restart when one of them reaches the end, and with each loop.
struct SequentialStreams {
    /// Next block to read, and next block to write.
    next: [u64; 2],
    blocks: u64,
    /// Number of requests in a loop; `None` if there is only one loop.
    requests_per_loop: Option<u64>,
}

impl SequentialStreams {
    fn next_block(&mut self, read: bool, sent: u64) -> u64 {
        let restarts = self.requests_per_loop.is_some_and(|count| sent.is_multiple_of(count));
        if restarts || self.next.contains(&self.blocks) {
            self.next = [0; 2];
        }
        let next = &mut self.next[usize::from(!read)];
        *next += 1;
        *next - 1
    }
}

impl JobSource {
    fn new(work: &Work, phase: &Phase) -> JobSource {
        let job = &work.job;
        let (spacing, arrivals) = match job.rate {
            None => (None, None),
            Some(Rate::RequestsPerSecond(rate)) => (Some(1e9 / rate), None),
            Some(Rate::BytesPerSecond(rate)) => {
                (Some(1e9 * job.block_size.bytes() as f64 / rate), None)
            }
            Some(Rate::Open(rate)) => (None, Some(Arrivals::new(rate, phase.seed))),
        };
        JobSource {
            addresses: Addresses::new(phase),
            region: work.region,
            block_size: job.block_size,
            trims: job.direction == Direction::Trim,
            left: work.requests.unwrap_or(u64::MAX),
            sent: 0,
            spacing,
            arrivals,
            flush_every: job.flush_every,
            writes: 0,
            flushed_last: false,
            think: job.think,
            streams: work.has_two_streams().then(|| SequentialStreams {
                next: [0; 2],
                blocks: phase.blocks(),
                requests_per_loop: (job.loops > 1).then(|| phase.blocks()),
            }),
        }
    }

    fn next_due(&mut self) -> Option<Nanoseconds> {
        if let Some(arrivals) = &mut self.arrivals {
            let due = arrivals.next();
            arrivals.advance();
            return Some(due);
        }
        // Each start is computed from the count, so that a late request does not delay later ones.
        self.spacing.map(|spacing| Nanoseconds::new((self.sent as f64 * spacing) as u64))
    }
}

impl Source for JobSource {
    fn next_request(&mut self) -> Result<Option<LaneRequest>, DriveError> {
        if self.left == 0 {
            return Ok(None);
        }
        // fio flushes before the request after every N-th write, and not at the end. If that request is a read, fio
        // flushes again after it, because the number of writes is still a multiple of N.
        let is_due = |every| self.writes > 0 && self.writes.is_multiple_of(every);
        let flushes = !self.flushed_last && self.flush_every.is_some_and(is_due);
        self.flushed_last = flushes;
        if flushes {
            return Ok(Some(LaneRequest {
                due: None,
                pause: Nanoseconds::ZERO,
                operation: Operation::Flush,
                region: Region::first(ByteLength::ZERO),
            }));
        }
        let due = self.next_due();
        let next = self.addresses.next_request();
        let block = match &mut self.streams {
            Some(streams) => streams.next_block(next.read, self.sent),
            None => next.block,
        };
        let pause = match self.think {
            Some((every, time)) if self.sent > 0 && self.sent.is_multiple_of(every) => time,
            _ => Nanoseconds::ZERO,
        };
        self.left -= 1;
        self.sent += 1;
        let operation = match (next.read, self.trims) {
            (true, _) => Operation::Read,
            (false, true) => Operation::Trim,
            (false, false) => Operation::Write,
        };
        self.writes += u64::from(operation == Operation::Write);
        let offset = self.region.offset + self.block_size * block;
        let region = Region { offset, length: self.block_size };
        Ok(Some(LaneRequest { due, pause, operation, region }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::JobFile;
    use super::*;

    fn work(options: &str) -> Result<Work, InputError> {
        let file = JobFile::parse(&format!("[a]\ndirect=1\nioengine=libaio\n{options}\n")).unwrap();
        let space = Space {
            capacity: ByteLength::new(1 << 30),
            unit: ByteLength::new(512),
            is_fixed: true,
        };
        Work::new(file.jobs().next().unwrap(), space)
    }

    fn requests(options: &str) -> Vec<LaneRequest> {
        let mut lanes = work(options).unwrap().lanes(1, Nanoseconds::ZERO);
        let mut all = Vec::new();
        while let Some(request) = lanes[0].source.next_request().unwrap() {
            all.push(request);
        }
        all
    }

    #[test]
    fn a_plain_job_is_a_phase() {
        let whole = work("rw=read\nbs=1m").unwrap().phase(1, Nanoseconds::ZERO).unwrap();
        assert_eq!(whole.amount, Amount::Bytes(ByteLength::new(1 << 30)));
        let half = "rw=randwrite\nsize=25%\noffset=50%\nruntime=10\ntime_based\niodepth=8";
        let half = work(half).unwrap().phase(1, Nanoseconds::ZERO).unwrap();
        assert_eq!(half.region.offset, ByteLength::new(1 << 29));
        assert_eq!(half.region.length, ByteLength::new(1 << 28));
        assert_eq!((half.pattern, half.depth), (Pattern::RandomOnce, 8));
        assert_eq!(half.amount, Amount::Time(Nanoseconds::from_secs(10)));
        for more in ["fsync=1", "numjobs=2", "rw=trim", "ramp_time=1", "runtime=5", "rw=rw"] {
            let work = work(&format!("rw=write\n{more}")).unwrap();
            assert!(work.phase(1, Nanoseconds::ZERO).is_none(), "{more}");
        }
    }

    #[test]
    fn flushes_come_where_fio_has_them() {
        let all = requests("rw=write\nbs=64k\nsize=1m\nfsync=4");
        let flushes: Vec<usize> =
            (0..all.len()).filter(|&index| all[index].operation == Operation::Flush).collect();
        // fio 3.33 counts 16 writes and 3 syncs for this job.
        assert_eq!((all.len(), flushes), (19, vec![4, 9, 14]));
    }

    #[test]
    fn a_read_behind_a_flush_is_flushed_again_as_fio_does() {
        let all = requests("rw=rw\nbs=64k\nsize=512k\nio_size=2m\nfsync=2");
        let (mut writes, mut after_flush) = (0, false);
        for (index, request) in all.iter().enumerate() {
            let is_flush = request.operation == Operation::Flush;
            // fio 3.33's own iolog of this job has 'write, sync, read, sync, write'.
            assert_eq!(is_flush, !after_flush && writes > 0 && writes % 2 == 0, "{index}");
            writes += u64::from(request.operation == Operation::Write);
            after_flush = is_flush;
        }
        let kinds: Vec<Operation> = all.iter().map(|it| it.operation).collect();
        let again = [Operation::Flush, Operation::Read, Operation::Flush];
        assert!(kinds.windows(3).any(|three| three == again));
    }

    #[test]
    fn sequential_reads_and_writes_are_two_streams_that_begin_anew_together() {
        for (options, loops) in [("io_size=16m", false), ("loops=4", true)] {
            let all = requests(&format!("rw=rw\nbs=64k\nsize=4m\n{options}"));
            assert_eq!(all.len(), 256);
            let (mut next, mut sent) = ([0, 0], 0);
            for request in &all {
                if next.contains(&64) || loops && sent % 64 == 0 {
                    next = [0, 0];
                }
                let kind = usize::from(request.operation == Operation::Write);
                assert_eq!(request.region.offset.bytes(), next[kind] << 16, "{sent} {options}");
                next[kind] += 1;
                sent += 1;
            }
        }
    }

    #[test]
    fn shares_lie_where_fio_has_them() {
        let region = |options: &str| {
            let file =
                JobFile::parse(&format!("[a]\ndirect=1\nrw=read\nbs=64k\n{options}\n")).unwrap();
            let capacity = ByteLength::new(64 << 20);
            let space = Space { capacity, unit: ByteLength::new(512), is_fixed: true };
            let region = Work::new(file.jobs().next().unwrap(), space).unwrap().region();
            (region.offset.bytes(), region.length.bytes())
        };
        // fio 3.33 on a device of 64 MiB begins at 22151168, and makes 337 requests.
        assert_eq!(region("offset=33%\nsize=33%"), (338 << 16, 337 << 16));
        assert_eq!(region("offset=50%\nsize=100%"), (32 << 20, 32 << 20));
    }

    #[test]
    fn the_request_that_reaches_the_amount_is_the_last() {
        // fio 3.33 makes 3 and 15 requests of these jobs.
        assert_eq!(requests("rw=write\nsize=1m\nio_size=10k").len(), 3);
        assert_eq!(requests("rw=randwrite\nbs=64k\nsize=192k\nio_size=900k").len(), 15);
        assert_eq!(requests("rw=write\nbs=64k\nsize=1m\nio_size=0").len(), 16);
    }

    #[test]
    fn trims_rates_and_pauses_are_kept() {
        let trims = requests("rw=trim\nbs=64k\nsize=256k");
        assert!(trims.iter().all(|it| it.operation == Operation::Trim) && trims.len() == 4);
        let paced = requests("rw=read\nrate_iops=1000\nsize=16k");
        assert_eq!(paced[3].due, Some(Nanoseconds::from_millis(3)));
        let thinking = requests("rw=read\nthinktime=10ms\nthinktime_blocks=2\nsize=16k");
        let pauses: Vec<u64> = thinking.iter().map(|it| it.pause.nanos() / 1_000_000).collect();
        assert_eq!(pauses, [0, 0, 10, 0]);
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_job() {
        for (options, words) in [
            ("rw=read\nsize=2g", "past the end"),
            ("rw=read\nbs=1000", "no multiple"),
            ("rw=read\noffset=100", "no multiple"),
            ("rw=read\nsize=10k", "no multiple of bs"),
            ("rw=read\nsize=2k", "no multiple of bs"),
        ] {
            let error = work(options).unwrap_err();
            assert!(error.line == Some(1) && error.why.contains(words), "{error}");
        }
    }
}
