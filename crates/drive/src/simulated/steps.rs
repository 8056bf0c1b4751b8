//! Requests in flight that are gone on with step by step, in the order of time.
//!
//! A drive asked like that is exact where reads meet writes or flushes, and where reads share what
//! is read ahead: see [`ssdlab_model::pending`]. Other requests are asked for at once, which is faster.

use ssdlab_model::pending::{Step, Waiting};
use ssdlab_units::Instant;

use super::in_flight::InFlight;
use super::responder::{Request, Responder};

/// A request that was sent and not answered. `T` is what the sender wants to know of it.
#[derive(Clone, Copy, Debug)]
struct Open<T> {
    tag: T,
    /// What it waits for; nothing if only the instant of its answer has to come.
    waiting: Option<Waiting>,
}

/// Up to a number of requests in flight.
pub(super) struct Steps<T> {
    in_flight: Box<InFlight>,
    /// Instants count from here.
    start: Instant,
    open: Vec<Option<Open<T>>>,
    free: Vec<u64>,
}

impl<T: Copy> Steps<T> {
    /// Room for `depth` requests, none of which is sent before `start`.
    pub(super) fn new(depth: usize, start: Instant) -> Self {
        let mut in_flight = InFlight::new(depth);
        let free = (0..depth).map(|_| in_flight.take_earliest()).collect();
        Steps { in_flight, start, open: vec![None; depth], free }
    }

    /// Returns true if another request can be sent.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns true if no request could be sent before the latest answer.
    pub(super) fn was_full(&self) -> bool {
        self.free.len() == 1
    }

    /// When something happens next, if anything is in flight.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<Instant> {
        (self.free.len() < self.open.len()).then(|| self.start + self.in_flight.earliest())
    }

    /// Sends a request at `at`; nothing that happens before may be left.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        drive: &mut (impl Responder + ?Sized),
        at: Instant,
        request: Request,
        tag: T,
    ) {
        let step = drive.begin(at, request);
        let place = self.free.pop().expect("there is room");
        self.note(place, tag, step);
    }

    /// Takes note of a request that was answered at once.
    pub(super) fn note_answered(&mut self, end: Instant, tag: T) {
        let place = self.free.pop().expect("there is room");
        self.note(place, tag, Step::Answered(end));
    }

    #[inline(always)]
    fn note(&mut self, place: u64, tag: T, step: Step) {
        let (until, waiting) = match step {
            Step::Answered(end) => (end, None),
            Step::Waits(waiting) => (waiting.until(), Some(waiting)),
        };
        self.open[place as usize] = Some(Open { tag, waiting });
        self.in_flight.enter(place, until.since(self.start));
        self.in_flight.check();
    }

    /// Lets happen what happens next: if that is an answer, whose and when.
    ///
    /// # Panics
    /// When nothing is in flight.
    #[inline(always)]
    pub(super) fn step(&mut self, drive: &mut (impl Responder + ?Sized)) -> Option<(T, Instant)> {
        let at = self.start + self.in_flight.earliest();
        let place = self.in_flight.take_earliest();
        let open = self.open[place as usize].take().expect("something is in flight");
        match open.waiting {
            Some(waiting) => {
                let step = drive.go_on(waiting);
                self.note(place, open.tag, step);
                None
            }
            None => {
                self.free.push(place);
                Some((open.tag, at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use ssdlab_model::mapping::Mapping;
    use ssdlab_model::profile::Profile;
    use ssdlab_model::{Configuration, Ssd};
    use ssdlab_units::{Nanoseconds, Sector, SectorCount};

    use super::super::responder::Kind;
    use super::*;

    /// A drive of 64 MiB with the parts of the default profile and these changes.
    fn drive(changes: &[(&str, &str)]) -> Ssd {
        Ssd::new(&configuration(changes)).unwrap()
    }

    fn configuration(changes: &[(&str, &str)]) -> Configuration {
        let mut profile = Profile::named(ssdlab_model::profile::DEFAULT).unwrap();
        let small = [
            ("capacity.logical", "64M"),
            ("capacity.physical", "80M"),
            ("flash.channels", "2"),
            ("flash.dies", "4"),
            ("flash.pages_per_block", "6"),
        ];
        for (key, value) in small.iter().chain(changes) {
            profile.set(key, value).unwrap();
        }
        profile.configuration().unwrap()
    }

    fn random_request(generator: &mut rand_pcg::Pcg64Mcg) -> Request {
        let kind = match generator.random_range(0..20) {
            0 => Kind::Flush,
            1 => Kind::WriteThrough,
            2..8 => Kind::Read,
            _ => Kind::Write,
        };
        // Whole units, several, and now and then a part of one.
        let count = [8, 8, 8, 8, 16, 64, 256, 3][generator.random_range(0..8)];
        let first = generator.random_range(0..(64 << 11) - 256);
        let first = if count == 3 { first } else { first / 8 * 8 };
        Request { kind, first: Sector(first), count: SectorCount(count) }
    }

    /// Random requests, and in between stretches of sequential reads.
    struct Requests {
        generator: rand_pcg::Pcg64Mcg,
        next: u64,
        left: u32,
    }

    impl Requests {
        fn next(&mut self) -> Request {
            if self.left == 0 {
                let request = random_request(&mut self.generator);
                if self.generator.random_range(0..20) == 0 {
                    (self.next, self.left) = (request.first.0 / 16 * 8, 30);
                }
                return request;
            }
            let (first, count) = (self.next, [8, 16, 128][self.generator.random_range(0..3)]);
            (self.next, self.left) = (first + count, self.left - 1);
            Request { kind: Kind::Read, first: Sector(first), count: SectorCount(count) }
        }
    }

    /// Sends `requests` requests, `depth` at a time, and now and then trims meanwhile; returns all
    /// latencies, of reads and of the rest.
    fn run<M: Mapping>(ssd: &mut Ssd<M>, depth: usize, requests: usize) -> [Nanoseconds; 2] {
        let generator = rand_pcg::Pcg64Mcg::seed_from_u64(depth as u64);
        let mut source = Requests { generator, next: 0, left: 0 };
        let mut now = Instant::START;
        for first in (0..64 << 11).step_by(256) {
            now = Responder::write(ssd, now, Sector(first), SectorCount(256));
        }
        let mut latencies = [Nanoseconds::ZERO, now.since(Instant::START)];
        let mut steps = Steps::new(depth, Instant::START);
        let (mut sent, mut answered) = (0, 0);
        while answered < requests {
            if sent < requests && steps.has_room() {
                let request = source.next();
                if sent % 101 == 100 {
                    // At once, as lanes do.
                    let end = Responder::trim(ssd, now, request.first, SectorCount(256));
                    latencies[1] += end.since(now);
                }
                steps.send(ssd, now, request, (now, request.kind == Kind::Read));
                sent += 1;
                continue;
            }
            assert!(steps.next().unwrap() >= now, "time does not go back");
            now = steps.next().unwrap();
            if let Some(((at, is_read), end)) = steps.step(ssd) {
                assert_eq!(end, now);
                latencies[usize::from(!is_read)] += end.since(at);
                answered += 1;
            }
        }
        assert!(steps.next().is_none());
        latencies
    }

    fn check<M: Mapping>(mut ssd: Ssd<M>, depth: usize, what: &[(&str, &str)]) {
        let latencies = run(&mut ssd, depth, 6_000);
        ssd.check_invariants();
        let told = ssd.attribution();
        let rest = told.writes.total() + told.others.total();
        assert_eq!([told.reads.total(), rest], latencies, "{what:?}, depth {depth}");
        let counters = ssd.counters();
        assert!(counters.collections > 0, "collection went on meanwhile");
        assert!(counters.read_ahead_hit_units > 0, "the stream was read ahead of");
    }

    #[test]
    fn every_request_is_answered_and_all_of_its_time_accounted_for() {
        for changes in [
            &[][..],
            &[("flush.journal", "on")],
            &[("controller.power_loss_protection", "on")],
            &[("controller.write_cache", "write-through")],
            &[("flash.suspend", "both"), ("flash.suspends_most", "4")],
        ] {
            for depth in [1, 4, 32] {
                check(drive(changes), depth, changes);
            }
        }
    }

    #[test]
    fn the_same_with_a_map_on_flash() {
        for changes in [
            &[("mapping.cache", "32K")][..],
            &[("mapping.cache", "16K"), ("controller.power_loss_protection", "on")],
            &[("mapping.cache", "32K"), ("flash.suspend", "both"), ("flash.suspends_most", "4")],
        ] {
            let cached = [("mapping.scheme", "cached"), ("collection.metadata_units", "8")];
            let configuration = configuration(&[&cached, changes].concat());
            for depth in [1, 4, 32] {
                check(Ssd::with_cached_map(&configuration).unwrap(), depth, changes);
            }
        }
    }

    #[test]
    fn alone_a_request_takes_as_long_as_when_it_is_answered_at_once() {
        // Collection would be looked at in other instants.
        let new = || drive(&[("capacity.physical", "512M")]);
        let mut generator = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let (mut by_steps, mut at_once) = (new(), new());
        let mut steps = Steps::new(1, Instant::START);
        let mut now = Instant::START;
        for _ in 0..2_000 {
            let request = random_request(&mut generator);
            let Request { kind, first, count } = request;
            steps.send(&mut by_steps, now, request, ());
            let answered = loop {
                if let Some(((), end)) = steps.step(&mut by_steps) {
                    break end;
                }
            };
            let expected = match kind {
                Kind::Read => at_once.read_sectors(now, first, count),
                Kind::Write => at_once.write_sectors(now, first, count),
                Kind::WriteThrough => at_once.write_fua_sectors(now, first, count),
                Kind::Flush => at_once.flush(now),
            };
            // Data that finds no room asks for channels at another time; they count in slots.
            let apart = answered.max(expected).since(answered.min(expected));
            assert!(
                apart < Nanoseconds::from_micros(100),
                "{request:?}: {answered:?}, {expected:?}"
            );
            now = answered.max(expected);
        }
        assert_eq!(by_steps.counters(), at_once.counters());
    }
}
