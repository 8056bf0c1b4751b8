//! Stacks over members that only log their requests, and over small simulated drives.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use ssdlab_model::profile::Profile;
use ssdlab_units::{GIB, MIB, Sector, SectorCount};

use super::*;
use crate::simulated::SimulatedDrive;
use crate::simulated::answer_queue::AnswerQueue;
use crate::simulated::responder::{Answer, Kind, LATEST, Request, Responder, Tag};
use crate::simulated::scripted::Scripted;
use crate::{Amount, Drive, ErrorKind, Mix, Pattern, Phase, PhaseResult, Region, Unobserved};

/// A logged request: member, kind, time, first sector, number of sectors.
type LoggedRequest = (usize, Kind, u64, u64, u64);
type Log = Arc<Mutex<Vec<LoggedRequest>>>;

/// Nanoseconds that a member takes for any request.
const SERVICE_TIME: u64 = 1_000;

/// Returns members that log their requests.
fn logging_members(count: usize) -> (Members, Log) {
    let log = Log::default();
    let logging_member = |number| -> Box<dyn Model> {
        let log = log.clone();
        Box::new(Scripted::new(move |at: Instant, request: Request| {
            let Request { kind, first, count } = request;
            log.lock().unwrap().push((number, kind, at.nanos(), first.0, count.0));
            at + Nanoseconds::new(SERVICE_TIME)
        }))
    };
    (Members::new((0..count).map(logging_member).collect()), log)
}

/// Sends one request, and waits for the answer.
fn ask(
    drive: &mut impl Responder,
    at: Instant,
    kind: Kind,
    first: Sector,
    count: SectorCount,
) -> Instant {
    drive.submit_and_wait(at, Request { kind, first, count })
}

/// Sends several requests at one instant; returns the nanoseconds at which each is answered.
fn ask_together(drive: &mut impl Responder, requests: &[Request]) -> Vec<u64> {
    for (request, tag) in requests.iter().zip(0..) {
        drive.submit(Instant::START, Tag(tag), *request);
    }
    let mut answers = AnswerQueue::default();
    let mut ends = vec![0; requests.len()];
    while let Some(answer) = answers.next(drive, LATEST) {
        ends[answer.tag.0 as usize] = answer.at.nanos();
    }
    ends
}

const CHUNK: ByteLength = ByteLength::new(64 << 10);
const CHUNK_SECTORS: u64 = 128;

fn parity(members: usize) -> (Layered<Parity>, Log) {
    let (drives, log) = logging_members(members);
    let geometry = ArrayGeometry::of(&drives, Some(CHUNK), true).unwrap();
    (Layered::new(Parity::new(geometry), drives), log)
}

/// Returns the member and the sector where left-symmetric RAID 5 keeps a data sector, and the member with
/// its parity, computed by counting through the stripes.
fn raid5_places(members: u64, sector: u64) -> ((usize, u64), usize) {
    let chunk = sector / CHUNK_SECTORS;
    let (stripe, mut place) = (chunk / (members - 1), chunk % (members - 1));
    let parity = members - 1 - stripe % members;
    let mut member = (parity + 1) % members;
    while place > 0 {
        member = (member + 1) % members;
        place -= 1;
    }
    ((member as usize, stripe * CHUNK_SECTORS + sector % CHUNK_SECTORS), parity as usize)
}

/// Returns all sectors of the logged requests of one kind, sorted.
fn sectors(log: &Log, kind: Kind) -> Vec<(usize, u64)> {
    let log = log.lock().unwrap();
    let of_kind = log.iter().filter(|asked| asked.1 == kind);
    let mut sectors: Vec<(usize, u64)> =
        of_kind.flat_map(|asked| (asked.3..asked.3 + asked.4).map(|it| (asked.0, it))).collect();
    sectors.sort_unstable();
    sectors
}

proptest! {
    #[test]
    fn raid5_reads_what_it_is_asked_for_once(
        members in 3usize..7, first in 0u64..2_000, count in 1u64..600,
    ) {
        let (mut array, log) = parity(members);
        ask(&mut array, Instant::START, Kind::Read, Sector(first * 8), SectorCount(count * 8));
        let mut expected: Vec<_> = (first * 8..(first + count) * 8)
            .map(|sector| raid5_places(members as u64, sector).0)
            .collect();
        expected.sort_unstable();
        prop_assert_eq!(sectors(&log, Kind::Read), expected);
    }

    #[test]
    fn raid5_writes_data_and_parity_and_reads_the_least_that_parity_needs(
        members in 3usize..8, first in 0u64..2_000, count in 1u64..600,
    ) {
        let (mut array, log) = parity(members);
        let at = Instant::from_nanos(5);
        let end = ask(&mut array, at, Kind::Write, Sector(first * 8), SectorCount(count * 8));
        let mut written = Vec::new();
        let mut rows = std::collections::BTreeMap::<u64, (usize, Vec<usize>)>::new();
        for sector in first * 8..(first + count) * 8 {
            let (place, parity) = raid5_places(members as u64, sector);
            written.push(place);
            rows.entry(place.1).or_insert((parity, Vec::new())).1.push(place.0);
        }
        written.extend(rows.iter().map(|(row, (parity, _))| (*parity, *row)));
        written.sort_unstable();
        prop_assert_eq!(sectors(&log, Kind::Write), written);
        let read = sectors(&log, Kind::Read);
        let mut needed = 0;
        for (row, (parity, data)) in rows {
            let others: Vec<usize> =
                (0..members).filter(|it| *it != parity && !data.contains(it)).collect();
            let is_read = |member: &usize| read.binary_search(&(*member, row)).is_ok();
            let least = others.len().min(data.len() + 1);
            needed += least;
            let reconstructs = others.iter().all(is_read) && others.len() == least;
            let modifies = data.iter().all(is_read) && is_read(&parity) && least < others.len();
            prop_assert!(reconstructs || modifies, "row {row} of {members} members");
        }
        prop_assert_eq!(read.len(), needed, "nothing is read in vain");
        let steps = if needed > 0 { 2 } else { 1 };
        prop_assert_eq!(end, at + Nanoseconds::new(SERVICE_TIME * steps));
    }

    #[test]
    fn raid0_cuts_requests_at_chunks_and_sends_each_member_one(
        members in 2usize..6, first in 0u64..2_000, count in 1u64..600,
    ) {
        let (drives, log) = logging_members(members);
        let geometry = ArrayGeometry::of(&drives, Some(CHUNK), true).unwrap();
        let mut array = Layered::new(Striped::new(geometry), drives);
        ask(&mut array, Instant::START, Kind::Write, Sector(first * 8), SectorCount(count * 8));
        let mut expected: Vec<_> = (first * 8..(first + count) * 8)
            .map(|sector| {
                let (chunk, within) = (sector / CHUNK_SECTORS, sector % CHUNK_SECTORS);
                let (stripe, member) = (chunk / members as u64, chunk % members as u64);
                (member as usize, stripe * CHUNK_SECTORS + within)
            })
            .collect();
        expected.sort_unstable();
        prop_assert_eq!(sectors(&log, Kind::Write), expected);
        prop_assert!(log.lock().unwrap().len() <= members);
    }
}

#[test]
fn a_raid5_of_three_is_laid_out_as_md_lays_it_out() {
    // Left-symmetric: 0 1 P, then 3 P 2, then P 4 5.
    let layout = [(0, 0), (1, 0), (2, 1), (0, 1), (1, 2), (2, 2)];
    for (chunk, (member, stripe)) in layout.into_iter().enumerate() {
        let place = raid5_places(3, chunk as u64 * CHUNK_SECTORS).0;
        assert_eq!(place, (member, stripe * CHUNK_SECTORS), "chunk {chunk}");
    }
}

#[test]
fn raid5_trims_whole_stripes_only() {
    let (mut array, log) = parity(3);
    let stripe = 2 * CHUNK_SECTORS;
    ask(&mut array, Instant::START, Kind::Trim, Sector(8), SectorCount(2 * stripe));
    let trimmed = sectors(&log, Kind::Trim);
    assert_eq!(trimmed.len() as u64, 3 * CHUNK_SECTORS, "the second stripe on three members");
    assert!(trimmed.iter().all(|(_, sector)| sector / CHUNK_SECTORS == 1));
}

#[test]
fn a_mirror_writes_everywhere_and_reads_where_least_is_under_way() {
    let (drives, log) = logging_members(2);
    let geometry = ArrayGeometry::of(&drives, None, true).unwrap();
    let mut mirror = Layered::new(Mirrored::new(geometry, ReadPolicy::FreeFirst), drives);
    ask(&mut mirror, Instant::START, Kind::Write, Sector(0), SectorCount(8));
    assert_eq!(sectors(&log, Kind::Write).len(), 16);
    let read = |first| Request { kind: Kind::Read, first: Sector(first), count: SectorCount(8) };
    for request in 0..4 {
        let at = Instant::from_nanos(SERVICE_TIME);
        mirror.submit(at, Tag(request), read(u64::from(request) * 800));
    }
    let readers = |log: &Log| -> Vec<usize> {
        let log = log.lock().unwrap();
        log.iter().filter(|asked| asked.1 == Kind::Read).map(|asked| asked.0).collect()
    };
    assert_eq!(readers(&log), [0, 1, 0, 1], "under way at the same time");
    while mirror.advance(LATEST, &mut Vec::new()) {}
    log.lock().unwrap().clear();
    for request in 0..4 {
        let at = Instant::from_nanos((10 + request) * SERVICE_TIME);
        mirror.submit_and_wait(at, read(8_000 + request * 8));
    }
    assert_eq!(readers(&log), [0; 4], "a stream stays where it is read ahead");
}

/// Sends requests of these kinds and places to `array`, 32 in flight; returns the answers in their order.
fn answers_of(array: &mut Layered<Mirrored>, requests: &[(Kind, u64)]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut now = array.latest_event();
    for (&(kind, place), sent) in requests.iter().zip(0..) {
        while sent - answers.len() >= 32 {
            array.advance(LATEST, &mut answers);
            now = array.latest_event();
        }
        let (first, count) = match kind {
            Kind::Flush => (Sector(0), SectorCount(0)),
            _ => (Sector(place * 8), SectorCount(8)),
        };
        array.submit(now, Tag(sent as u32), Request { kind, first, count });
    }
    while array.advance(LATEST, &mut answers) {}
    answers
}

#[test]
fn members_that_are_simulated_once_answer_as_members_of_their_own() {
    // A drive that collects garbage from the first write on.
    let mut profile = Profile::named("samsung-840-pro-512").unwrap();
    profile.set("scale", "1/1024").unwrap();
    let mut drive = model_of(&profile.configuration().unwrap()).unwrap();
    let mut now = Instant::START;
    let pieces = drive.capacity().whole(KIB * 4);
    for write in 0..2 * pieces {
        let first = Sector(write * 7_919 % pieces * 8);
        let request = Request { kind: Kind::Write, first, count: SectorCount(8) };
        now = drive.submit_and_wait(now, request);
    }
    let mirror = |members: Members| {
        let geometry = ArrayGeometry::of(&members, None, true).unwrap();
        Layered::new(Mirrored::new(geometry, ReadPolicy::FreeFirst), members)
    };
    let requests = || prop::collection::vec((0u8..20, 0..pieces), 0..400);
    proptest!(ProptestConfig::with_cases(16), |(before in requests(), after in requests())| {
        // Only the second half has reads, so that the first of them finds writes in flight.
        let kind = |number, has_reads| match number {
            0 => Kind::Flush,
            1 | 2 => Kind::Trim,
            3 | 4 => Kind::WriteThrough,
            5..=12 if has_reads => Kind::Read,
            _ => Kind::Write,
        };
        let before = before.iter().map(|&(number, place)| (kind(number, false), place));
        let after = after.iter().map(|&(number, place)| (kind(number, true), place));
        let requests: Vec<(Kind, u64)> = before.chain(after).collect();
        let mut once = mirror(Members::copies_of(&*drive, 2));
        let mut each = mirror(Members::new(vec![drive.clone(), drive.clone()]));
        prop_assert_eq!(answers_of(&mut once, &requests), answers_of(&mut each, &requests));
        prop_assert_eq!(once.counters(), each.counters());
        prop_assert_eq!(once.attribution(), each.attribution());
        prop_assert_eq!(once.unused_flash(), each.unused_flash());
    });
}

#[test]
fn a_bridge_with_one_command_at_a_time_keeps_the_next_waiting() {
    let bridge = UsbBridge {
        trim: false,
        flush: false,
        link: TransferRate::from_mb_per_second(400.0),
        per_command: Nanoseconds::new(100),
        one_at_a_time: true,
    };
    let ends = |bridge| {
        let (drives, _) = logging_members(1);
        let mut enclosure = Layered::new(Bridged::new(bridge), drives);
        let read = Request { kind: Kind::Read, first: Sector(0), count: SectorCount(1) };
        let ends = ask_together(&mut enclosure, &[read, read, Request::FLUSH]);
        (ends[0], ends[1], ends[2])
    };
    // 512 bytes take 1,280 ns at 400 MB/s, longer than the drive takes.
    assert_eq!(ends(bridge), (1_380, 2_760, 2_860));
    let many = UsbBridge { one_at_a_time: false, ..bridge };
    assert_eq!(ends(many), (1_380, 2_660, 300), "the link is shared, the flush is swallowed");
    assert_eq!(ends(UsbBridge { flush: true, ..many }).2, 1_300);
}

#[test]
fn encryption_costs_processor_time() {
    let encryption = Encryption {
        trim: false,
        per_processor: TransferRate::from_mb_per_second(1_000.0),
        processors: 2,
    };
    let (drives, _) = logging_members(1);
    let mut drive = Layered::new(Encrypted::new(encryption), drives);
    let write = Request { kind: Kind::Write, first: Sector(0), count: SectorCount(8) };
    assert_eq!(ask_together(&mut drive, &[write; 3]), [5_096, 5_096, 9_192]);
}

/// A small drive of sixteen dies with 20 % over-provisioning.
fn small() -> Composition {
    let mut profile = Profile::named("toshiba-xg5").unwrap();
    for (key, value) in
        [("flash.pages_per_block", "48"), ("capacity.physical", "2GiB"), ("spare", "20%")]
    {
        profile.set(key, value).unwrap();
    }
    Composition::Ssd(Box::new(profile.configuration().unwrap()))
}

fn opened(composition: Composition) -> SimulatedDrive {
    SimulatedDrive::of("test", composition).unwrap()
}

fn run(drive: &mut dyn Drive, pattern: Pattern, mix: Mix, bytes: ByteLength) -> PhaseResult {
    let phase = Phase {
        name: "test".to_owned(),
        pattern,
        block_size: if pattern == Pattern::Sequential { MIB } else { KIB * 4 },
        depth: 32,
        mix,
        region: Region::first(GIB),
        amount: Amount::Bytes(bytes),
        rate: None,
        seed: 1,
        flush_at_end: false,
        interval: Nanoseconds::ZERO,
    };
    drive.run_phase(&phase, &mut Unobserved).unwrap()
}

fn mirror(synchronisation: Synchronisation) -> Composition {
    let array = Level::Raid1.array(vec![small(), small()]);
    Composition::Array(Array { synchronisation, ..array })
}

#[test]
fn synchronising_a_mirror_fills_its_second_drive() {
    let empty = opened(mirror(Synchronisation::None));
    assert_eq!(empty.inside().unwrap().counters.host_write_units, 0);
    assert_eq!(empty.now(), Instant::START);
    let mut full = opened(mirror(Synchronisation::Full));
    let units = full.description().capacity.whole(KIB * 4);
    assert_eq!(full.inside().unwrap().counters.host_write_units, units);
    assert!(full.now() > Instant::START, "it takes its time");
    let before = full.now();
    full.purge().unwrap();
    assert!(full.now() > before);
    assert_eq!(full.inside().unwrap().counters.host_write_units, units);
    run(&mut full, Pattern::Random, Mix::WRITE, MIB * 64);
}

#[test]
fn a_mirror_reads_faster_than_one_drive_and_writes_no_faster() {
    let rate = |composition, mix| {
        let mut drive = opened(composition);
        run(&mut drive, Pattern::Sequential, Mix::WRITE, GIB);
        let result = run(&mut drive, Pattern::Random, mix, MIB * 64);
        result.requests as f64 / result.elapsed.seconds()
    };
    let none = Synchronisation::None;
    let reads = rate(mirror(none), Mix::READ) / rate(small(), Mix::READ);
    // A second drive does not shorten what a command takes in the controller.
    assert!((1.15..=2.1).contains(&reads), "reads are {reads} times as fast");
    let writes = rate(mirror(none), Mix::WRITE) / rate(small(), Mix::WRITE);
    assert!((0.8..=1.01).contains(&writes), "writes are {writes} times as fast");
}

#[test]
fn latencies_behind_a_bridge_or_under_encryption_are_the_sum_of_their_parts() {
    let bridge = UsbBridge {
        trim: false,
        flush: false,
        link: TransferRate::from_mb_per_second(400.0),
        per_command: Nanoseconds::from_micros(20),
        one_at_a_time: false,
    };
    let encryption = Encryption {
        trim: false,
        per_processor: TransferRate::from_mb_per_second(500.0),
        processors: 2,
    };
    let slow = UsbBridge { one_at_a_time: true, ..bridge };
    for composition in [
        Composition::Usb(Box::new(small()), bridge),
        Composition::Usb(Box::new(small()), slow),
        Composition::Crypt(Box::new(small()), encryption),
    ] {
        let mut drive = opened(composition);
        run(&mut drive, Pattern::Sequential, Mix::WRITE, GIB);
        let before = drive.inside().unwrap().attribution;
        let result = run(&mut drive, Pattern::Random, Mix { read_percent: 50 }, MIB * 64);
        let parts = drive.inside().unwrap().attribution.since(&before);
        for (parts, latencies) in
            [(parts.reads, &result.read_latencies), (parts.writes, &result.write_latencies)]
        {
            let sum = latencies.mean().unwrap().nanos() as f64 * latencies.count() as f64;
            let share = parts.total().nanos() as f64 / sum;
            assert!((0.998..1.002).contains(&share), "{share} of the latency");
        }
    }
}

#[test]
fn raid5_pays_for_small_writes_with_reads() {
    let members = vec![small(), small(), small(), small(), small()];
    let array = Array { synchronisation: Synchronisation::None, ..Level::Raid5.array(members) };
    let mut drive = opened(Composition::Array(array));
    run(&mut drive, Pattern::Random, Mix::WRITE, MIB * 64);
    let counters = drive.inside().unwrap().counters;
    let writes = (MIB * 64).whole(KIB * 4);
    assert_eq!(counters.host_write_units, writes * 2, "data and parity");
    assert_eq!(counters.host_read_units, writes * 2, "old data and old parity");
}

#[test]
fn trim_that_is_not_passed_on_is_refused_and_changes_nothing() {
    let usb = UsbBridge {
        trim: false,
        flush: true,
        link: TransferRate::from_mb_per_second(400.0),
        per_command: Nanoseconds::from_micros(20),
        one_at_a_time: false,
    };
    let three = || vec![small(), small(), small()];
    let deaf = || Composition::Usb(Box::new(small()), usb);
    let none = |array: Array| {
        Composition::Array(Array { synchronisation: Synchronisation::None, ..array })
    };
    for composition in
        [deaf(), none(Level::Raid5.array(three())), none(Level::Raid0.array(vec![small(), deaf()]))]
    {
        let mut drive = opened(composition);
        let error = drive.trim(Region::first(MIB * 64)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(drive.inside().unwrap().counters.host_trim_units, 0);
    }
    let mut passes = opened(none(Array { trim: true, ..Level::Raid5.array(three()) }));
    passes.trim(Region::first(MIB * 64)).unwrap();
    assert!(passes.inside().unwrap().counters.host_trim_units > 0);
}

#[test]
fn what_cannot_be_built_says_why() {
    let error = |array: Array| match SimulatedDrive::of("test", Composition::Array(array)) {
        Ok(_) => panic!("it was built"),
        Err(error) => error.to_string(),
    };
    assert!(error(Level::Raid5.array(vec![small(), small()])).contains("at least 3"));
    assert!(error(Level::Raid10.array(vec![small(), small(), small()])).contains("4, 6, 8"));
    let array = Level::Raid0.array(vec![small(), small()]);
    assert!(error(Array { chunk: KIB * 6, ..array.clone() }).contains("power of two"));
    assert!(error(Array { chunk: GIB * 8, ..array }).contains("less than one chunk"));
}
