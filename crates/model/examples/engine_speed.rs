//! The drive on the engine beside the one that computes requests at once: random reads and writes of single
//! units in a closed loop, millions of requests per second of processor time, in turns.

use std::time::Instant as Clock;

use ssdlab_model::ftl::{self, Answer, Command, Host, Port, RequestTag};
use ssdlab_model::profile::{DEFAULT, Profile};
use ssdlab_model::{Configuration, Ssd};
use ssdlab_units::{Instant, LogicalUnit};

const DEPTH: usize = 32;
const AHEAD: usize = 64;

struct Draws {
    state: u64,
    units: u32,
    read_percent: u64,
    ring: [(LogicalUnit, bool); AHEAD],
    next: usize,
}

impl Draws {
    fn new(units: u32, read_percent: u64) -> Draws {
        let mut draws = Draws {
            state: 1,
            units,
            read_percent,
            ring: [(LogicalUnit(0), false); AHEAD],
            next: 0,
        };
        (0..AHEAD).for_each(|_| {
            draws.take();
        });
        draws
    }

    #[inline(always)]
    fn take(&mut self) -> ((LogicalUnit, bool), LogicalUnit) {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = self.state >> 32;
        let unit = LogicalUnit(((random * u64::from(self.units)) >> 32) as u32);
        let is_read = ((self.state >> 8 & 0xffff) * 100) >> 16 < self.read_percent;
        let drawn = std::mem::replace(&mut self.ring[self.next % AHEAD], (unit, is_read));
        self.next += 1;
        let soon = self.ring[(self.next + AHEAD / 2) % AHEAD].0;
        (drawn, soon)
    }
}

struct Loop {
    draws: Draws,
    left: u64,
    end: Instant,
}

impl Host for Loop {
    #[inline(always)]
    fn answered(&mut self, port: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.end = self.end.max(answer.at);
        self.left = self.left.checked_sub(1)?;
        let ((first, is_read), soon) = self.draws.take();
        let command = match is_read {
            true => Command::Read { first, units: 1 },
            false => Command::Write { first, units: 1, force: false },
        };
        port.submit(answer.at, answer.tag, command);
        Some(soon)
    }
}

fn engine(ssd: &mut ftl::Ssd, at: Instant, read_percent: u64, requests: u64) -> Instant {
    let draws = Draws::new(ssd.geometry().logical_units(), read_percent);
    let mut host = Loop { draws, left: requests, end: at };
    for tag in 0..DEPTH as u32 {
        let answer = Answer { tag: RequestTag(tag), sent: at, at };
        host.answered(&mut ssd.port(), answer);
    }
    ssd.run_until(Instant::from_nanos(u64::MAX - 1), &mut host);
    host.end.max(ssd.now())
}

fn at_once(ssd: &mut Ssd, at: Instant, read_percent: u64, requests: u64) -> Instant {
    let mut draws = Draws::new(ssd.geometry().logical_units(), read_percent);
    let mut free = [at; DEPTH];
    for _ in 0..requests {
        let ((first, is_read), soon) = draws.take();
        ssd.prefetch_map(soon);
        let (place, sent) =
            (0..DEPTH).map(|it| (it, free[it])).min_by_key(|it| it.1).expect("some");
        free[place] = if is_read { ssd.read(sent, first, 1) } else { ssd.write(sent, first, 1) };
    }
    free.into_iter().max().expect("some")
}

fn main() {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    for (key, value) in [
        ("capacity.logical", "8G"),
        ("capacity.physical", "10G"),
        ("flash.pages_per_block", "96"),
        ("read_ahead.window", "0"),
    ] {
        profile.set(key, value).expect("a sound value");
    }
    let configuration: Configuration = profile.configuration().expect("a sound profile");
    let mut new = ftl::Ssd::new(&configuration).expect("a sound drive");
    let mut old = Ssd::new(&configuration).expect("a sound drive");
    let (mut at_new, mut at_old) = (Instant::START, Instant::START);
    let units = u64::from(new.geometry().logical_units());
    at_new = engine(&mut new, at_new, 0, 3 * units);
    at_old = at_once(&mut old, at_old, 0, 3 * units);
    for turn in 0..3 {
        for read_percent in [0, 100, 70] {
            let requests = 4_000_000;
            let (from, clock) = (at_new, Clock::now());
            at_new = engine(&mut new, at_new, read_percent, requests);
            let (took_new, iops_new) =
                (clock.elapsed(), requests as f64 / at_new.since(from).seconds());
            let (from, clock) = (at_old, Clock::now());
            at_old = at_once(&mut old, at_old, read_percent, requests);
            let (took_old, iops_old) =
                (clock.elapsed(), requests as f64 / at_old.since(from).seconds());
            let rate = |took: std::time::Duration| requests as f64 / took.as_secs_f64() / 1e6;
            println!(
                "turn {turn} reads {read_percent:3} %: engine {:6.2} M/s ({iops_new:9.0} IOPS), at once \
                 {:6.2} M/s ({iops_old:9.0} IOPS), ratio {:.2}",
                rate(took_new),
                rate(took_old),
                took_old.as_secs_f64() / took_new.as_secs_f64(),
            );
        }
    }
    let amplification = |counters: ssdlab_model::counters::Counters| counters.write_amplification();
    println!("A {:?} {:?}", amplification(new.counters()), amplification(old.counters()));
}
