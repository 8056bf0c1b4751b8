//! Single operations whose times can be worked out by hand.

use ssdlab_units::{ByteLength, DieIndex, Instant, KIB, Nanoseconds, PhysicalUnit};

use super::power_cut::{FlashOperation, OperationInFlight, Progress};
use super::{Nand, Page, ProgramUnit};
use crate::completions::{Completions, ReadTime, Tag};
use crate::copies::CopyNumber;
use crate::die::DieParameters;
use crate::erase::EraseId;
use crate::geometry::{Geometry, GeometryParameters};
use crate::suspend::{SuspendParameters, SuspendWhen, Suspendable};
use crate::timing::{Delivery, Timing, TransferRate};

const SENSE: Nanoseconds = Nanoseconds::from_micros(60);
const PROGRAM: Nanoseconds = Nanoseconds::from_micros(600);
const ERASE: Nanoseconds = Nanoseconds::from_millis(3);
/// Time of a unit over the channel at 1,000 MB/s, and over the link at 4,096 MB/s.
const CHANNEL: Nanoseconds = Nanoseconds::new(4_096);
const LINK: Nanoseconds = Nanoseconds::new(999);

/// Two channels, four dies of two planes, pages of four units: die 0 has units 0 to 7, 32 to 39, and so on.
fn nand(suspend: SuspendParameters, page_register: bool) -> Nand {
    nand_on_link(suspend, page_register, true)
}

fn nand_on_link(suspend: SuspendParameters, page_register: bool, link_full_duplex: bool) -> Nand {
    nand_of_units(KIB * 4, suspend, page_register, link_full_duplex)
}

fn nand_of_units(
    unit_size: ByteLength,
    suspend: SuspendParameters,
    page_register: bool,
    link_full_duplex: bool,
) -> Nand {
    let geometry = Geometry::new(GeometryParameters {
        channels: 2,
        dies: 4,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 8,
        page_size: unit_size * 4,
        unit_size,
        dies_per_collection_unit: 4,
        collection_units: 16,
        metadata_collection_units: 0,
        reserve_collection_units: 0,
        logical_units: 2_500,
    })
    .expect("a sound geometry");
    let timing = Timing {
        page_read: SENSE,
        program: PROGRAM,
        erase: ERASE,
        channel: TransferRate::from_mb_per_second(1_000.0),
        link: TransferRate::from_mb_per_second(4_096.0),
        link_full_duplex,
        delivery: Delivery::AnyOrder,
        command_latency: Nanoseconds::from_micros(10),
        command_occupancy: Nanoseconds::from_micros(1),
    };
    Nand::new(&geometry, &timing, DieParameters { suspend, background_most: 8, page_register })
}

/// Records all callbacks, and asks for nothing itself.
#[derive(Debug, Default)]
struct Notes {
    reads: Vec<(u32, u64, ReadTime)>,
    programmed: Vec<(u32, u64)>,
    copied: Vec<(u32, u64)>,
    erased: Vec<u64>,
}

impl Completions for Notes {
    fn fetched(&mut self, nand: &mut Nand, tag: Tag, _: Instant) {
        nand.read_unit(tag, PhysicalUnit(tag.0), SENSE);
    }
    fn read(&mut self, _: &mut Nand, tag: Tag, at: Instant, time: ReadTime) {
        self.reads.push((tag.0, at.nanos(), time));
    }
    fn programmed(&mut self, _: &mut Nand, tag: Tag, at: Instant) {
        self.programmed.push((tag.0, at.nanos()));
    }
    fn copies_programmed(&mut self, _: &mut Nand, copies: CopyNumber, at: Instant) {
        self.copied.push((copies.index(), at.nanos()));
    }
    fn erased(&mut self, _: &mut Nand, _: EraseId, at: Instant) {
        self.erased.push(at.nanos());
    }
}

fn finish(nand: &mut Nand, notes: &mut Notes) {
    nand.run_until(Instant::from_nanos(1 << 40), notes);
    assert!(nand.is_idle());
}

fn program(unit: u32, after: Option<EraseId>) -> ProgramUnit {
    ProgramUnit { unit: PhysicalUnit(unit), units: 8, program: PROGRAM, after }
}

fn page(unit: u32, units: u32) -> Page {
    Page { unit: PhysicalUnit(unit), units, sense: SENSE }
}

const NO_SUSPEND: SuspendParameters = SuspendParameters {
    operations: Suspendable::Off,
    step: Nanoseconds::ZERO,
    suspend: Nanoseconds::ZERO,
    resume: Nanoseconds::ZERO,
    most: 0,
    when: SuspendWhen::Always,
};

/// Returns the moment at which a read that arrives at its die at 111 us is with the host, in nanoseconds,
/// if the die is free at `free`.
fn read_from(free: Nanoseconds) -> u64 {
    (free + SENSE + CHANNEL + LINK).nanos()
}

/// Submits a read at 100 us, so that it arrives at its die at 111 us.
fn submit_read(nand: &mut Nand, unit: u32) {
    nand.submit(Instant::from_nanos(100_000), Tag(unit), Nanoseconds::ZERO);
}

const ARRIVAL: Nanoseconds = Nanoseconds::from_micros(111);

#[test]
fn a_read_waits_for_the_program_in_progress_and_is_told_for_how_long() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    nand.program(Tag(7), program(0, None));
    submit_read(&mut nand, 32);
    finish(&mut nand, &mut notes);
    let end = CHANNEL * 8 + PROGRAM;
    assert_eq!(notes.programmed, [(7, end.nanos())]);
    let time = ReadTime {
        sense: SENSE,
        transfer: CHANNEL,
        blocked_by_program: end - ARRIVAL,
        blocked_by_background: Nanoseconds::ZERO,
    };
    assert_eq!(notes.reads, [(32, read_from(end), time)]);
}

#[test]
fn a_read_suspends_a_program_which_ends_that_much_later() {
    let us = Nanoseconds::from_micros;
    let suspend = SuspendParameters {
        operations: Suspendable::Program,
        step: Nanoseconds::ZERO,
        suspend: us(20),
        resume: us(7),
        most: 1,
        when: SuspendWhen::Always,
    };
    let (mut nand, mut notes) = (nand(suspend, false), Notes::default());
    nand.program(Tag(7), program(0, None));
    submit_read(&mut nand, 32);
    // For a later read, the program was already suspended as often as it may be.
    nand.submit(Instant::from_nanos(300_000), Tag(64), Nanoseconds::ZERO);
    finish(&mut nand, &mut notes);
    let end = CHANNEL * 8 + PROGRAM + us(20) + SENSE + us(7);
    assert_eq!(notes.programmed, [(7, end.nanos())]);
    assert_eq!(notes.reads[0].1, read_from(ARRIVAL + us(20)));
    assert_eq!(notes.reads[0].2.blocked_by_program, us(20));
    assert_eq!(notes.reads[1].1, read_from(end));
    assert_eq!(notes.reads[1].2.blocked_by_program, end - us(311));
}

#[test]
fn a_program_waits_for_the_erase_that_it_names_and_an_erase_blocks_as_background() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    let erase = nand.announce_erase(DieIndex(0)..DieIndex(4));
    nand.program(Tag(1), program(0, Some(erase)));
    nand.program(Tag(2), program(32, None));
    // Until the data of both programs is on the die, and the second is in progress.
    nand.run_until(Instant::from_nanos(99_999), &mut notes);
    let issue = CHANNEL * 16;
    nand.erase(erase, ERASE);
    submit_read(&mut nand, 8);
    finish(&mut nand, &mut notes);
    // The program that waits for the erase lets the other program go ahead.
    let second = CHANNEL * 16 + PROGRAM;
    assert_eq!(notes.programmed, [(2, second.nanos()), (1, (second + ERASE + PROGRAM).nanos())]);
    assert_eq!(notes.erased, [(second + ERASE).nanos()]);
    // Die 1 had nothing else to do, and erased from the issue of the erase on.
    let erased = issue + ERASE;
    assert_eq!(notes.reads[0].1, read_from(erased));
    assert_eq!(notes.reads[0].2.blocked_by_background, erased - ARRIVAL);
}

#[test]
fn pages_of_one_multi_plane_read_are_sensed_once_and_a_stream_finds_them_in_the_register() {
    for page_register in [false, true] {
        let (mut nand, mut notes) = (nand(NO_SUSPEND, page_register), Notes::default());
        for (tag, units) in [(0, [0, 4]), (1, [1, 5])] {
            let read = nand.begin_read(Tag(tag), true);
            for unit in units {
                nand.add_page(read, page(unit, 2), LINK * 2);
            }
            nand.issue_read(read);
        }
        finish(&mut nand, &mut notes);
        let senses = if page_register { 1 } else { 2 };
        let first = SENSE + CHANNEL * 4 + LINK * 2;
        assert_eq!(notes.reads[0].1, first.nanos());
        let behind = if page_register { CHANNEL * 4 } else { Nanoseconds::ZERO };
        let second = SENSE * senses + behind + CHANNEL * 4 + LINK * 2;
        assert_eq!(notes.reads[1].1, second.nanos());
    }
}

#[test]
fn copies_go_to_their_dies_in_order_and_what_is_in_ram_is_sent_at_once() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    let [first, second] = [64, 72].map(|unit| nand.begin_copies(program(unit, None)));
    nand.copy(page(0, 4), first, Some(second));
    nand.copy(page(40, 4), second, None);
    nand.complete_copies(second);
    // The second program unit has all its data long before the first is complete.
    nand.run_until(Instant::from_nanos(1_000_000), &mut notes);
    assert_eq!(notes.copied, []);
    nand.complete_copies(first);
    nand.send(Tag(9), LINK * 3);
    let now = nand.now();
    finish(&mut nand, &mut notes);
    assert_eq!(notes.reads, [(9, (now + LINK * 3).nanos(), ReadTime::default())]);
    let end = (now + CHANNEL * 8 + PROGRAM).nanos();
    assert_eq!(notes.copied, [(0, end), (1, end)], "each over its own channel");
}

#[test]
fn a_part_of_a_unit_takes_the_link_for_its_own_time_and_the_channel_for_that_of_the_unit() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    let read = nand.begin_read(Tag(3), false);
    let part = Nanoseconds::new(125);
    nand.add_page(read, page(0, 1), part);
    nand.add_buffered(read, LINK + part);
    nand.issue_read(read);
    finish(&mut nand, &mut notes);
    assert_eq!(notes.reads[0].1, (SENSE + CHANNEL + part).nanos());
    assert_eq!(notes.reads[0].2.transfer, CHANNEL);
}

#[test]
fn of_a_large_unit_the_codewords_that_are_asked_for_cross_the_channel() {
    let mut nand = nand_of_units(KIB * 64, NO_SUSPEND, false, true);
    let mut notes = Notes::default();
    let read = nand.begin_read(Tag(1), false);
    nand.add_part_of_page(read, page(0, 1), 15, LINK);
    nand.issue_read(read);
    finish(&mut nand, &mut notes);
    assert_eq!(notes.reads[0].1, (SENSE + CHANNEL + LINK).nanos());
    assert_eq!(notes.reads[0].2.transfer, CHANNEL);
    let read = nand.begin_read(Tag(2), false);
    nand.add_page(read, page(0, 2), LINK * 32);
    nand.issue_read(read);
    finish(&mut nand, &mut notes);
    assert_eq!(notes.reads[1].2.transfer, CHANNEL * 32);
}

#[test]
fn a_power_cut_finds_what_is_in_progress_suspended_and_waiting_and_forgets_it() {
    let us = Nanoseconds::from_micros;
    let (suspend, most) = (us(20), 1);
    let operations = Suspendable::Both;
    let (step, resume, when) = (Nanoseconds::ZERO, us(7), SuspendWhen::Always);
    let suspend = SuspendParameters { operations, step, suspend, resume, most, when };
    let (mut nand, mut notes) = (nand(suspend, false), Notes::default());
    let erase = nand.announce_erase(DieIndex(0)..DieIndex(2));
    nand.program(Tag(1), program(0, None));
    nand.program(Tag(2), program(32, Some(erase)));
    let copies = nand.begin_copies(program(24, None));
    nand.copy(page(8, 4), copies, None);
    submit_read(&mut nand, 4);
    // Until the first program is in progress. The copy's sense keeps die 1 from its erase until 60 us.
    nand.run_until(Instant::from_nanos(40_000), &mut notes);
    nand.erase(erase, ERASE);
    nand.run_until(Instant::from_nanos(120_000), &mut notes);
    let die =
        |die, operation, progress| OperationInFlight { operation, die: DieIndex(die), progress };
    let begun = CHANNEL * 8;
    let left = begun + PROGRAM - ARRIVAL;
    assert_eq!(
        nand.operations_in_flight(),
        [
            die(0, FlashOperation::Program(Tag(1)), Progress::Suspended { left }),
            die(0, FlashOperation::Erase(erase), Progress::Waiting),
            die(0, FlashOperation::Program(Tag(2)), Progress::Waiting),
            die(
                1,
                FlashOperation::Erase(erase),
                Progress::InProgress { end: Instant::START + us(60) + ERASE }
            ),
            die(3, FlashOperation::CopyProgram(copies), Progress::Waiting),
        ]
    );
    nand.receive(LINK * 1_000);
    let at = nand.now();
    nand.cut_power();
    assert!(nand.is_idle() && nand.operations_in_flight().is_empty());
    assert_eq!(nand.now(), at);
    assert_eq!(nand.receive(LINK), at + LINK);
    // The flash starts again from there.
    let now = nand.now().since(Instant::START);
    let mut notes = Notes::default();
    nand.program(Tag(5), program(0, None));
    finish(&mut nand, &mut notes);
    assert_eq!(notes.programmed, [(5, (now + CHANNEL * 8 + PROGRAM).nanos())]);
    assert_eq!(notes.reads, []);
}

#[test]
fn after_years_a_power_cut_leaves_flash_that_programs_at_once() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    let decade = Nanoseconds::from_secs(10 * 365 * 24 * 3600);
    nand.set_alarm(Instant::START + decade, Tag(0));
    nand.run_until(Instant::START + decade, &mut notes);
    nand.cut_power();
    nand.program(Tag(1), program(0, None));
    nand.run_until(Instant::START + decade * 2, &mut notes);
    assert_eq!(notes.programmed, [(1, (decade + CHANNEL * 8 + PROGRAM).nanos())]);
}

/// Programs a unit again, on the next die, when a program has failed on its die.
struct Failing {
    notes: Notes,
    fails: u32,
    next: u32,
}

impl Completions for Failing {
    fn fetched(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        self.notes.fetched(nand, tag, at);
    }
    fn read(&mut self, nand: &mut Nand, tag: Tag, at: Instant, time: ReadTime) {
        self.notes.read(nand, tag, at, time);
    }
    fn programmed(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        if self.fails == 0 {
            return self.notes.programmed(nand, tag, at);
        }
        self.fails -= 1;
        self.next += 8;
        nand.program(tag, program(self.next, None));
    }
}

#[test]
fn a_program_that_fails_is_repeated_elsewhere_by_another_call() {
    let mut nand = nand(NO_SUSPEND, false);
    let mut sink = Failing { notes: Notes::default(), fails: 2, next: 0 };
    nand.program(Tag(4), program(0, None));
    nand.run_until(Instant::from_nanos(1 << 40), &mut sink);
    let once = CHANNEL * 8 + PROGRAM;
    assert_eq!(sink.notes.programmed, [(4, (once * 3).nanos())], "data again, then the program");
    assert!(nand.is_idle());
}

/// Reads a unit for each command but number 9, which is a write: moves its data over the link.
#[derive(Default)]
struct Commuting {
    notes: Notes,
    received: Option<Instant>,
}

impl Completions for Commuting {
    fn reads_commute(&self) -> bool {
        true
    }

    fn fetched(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        match tag {
            Tag(9) => self.received = Some(nand.receive(LINK)),
            _ => self.notes.fetched(nand, tag, at),
        }
    }
    fn read(&mut self, nand: &mut Nand, tag: Tag, at: Instant, time: ReadTime) {
        self.notes.read(nand, tag, at, time);
    }
    fn programmed(&mut self, _: &mut Nand, _: Tag, _: Instant) {}
}

#[test]
fn a_write_takes_a_link_that_both_directions_share_behind_a_read_that_was_there_before() {
    for full_duplex in [false, true] {
        let mut nand = nand_on_link(NO_SUSPEND, false, full_duplex);
        let mut sink = Commuting::default();
        nand.submit(Instant::START, Tag(0), Nanoseconds::ZERO);
        let transferred = Instant::START + Nanoseconds::from_micros(11) + SENSE + CHANNEL;
        let read = transferred + LINK;
        // The controller acts on the write while the read's data is on the link.
        let act = transferred + LINK / 2;
        let command = Nanoseconds::from_micros(11);
        let sent = Instant::from_nanos(act.nanos() - command.nanos());
        nand.submit(sent, Tag(9), Nanoseconds::ZERO);
        nand.run_until(Instant::from_nanos(1 << 40), &mut sink);
        assert_eq!(sink.notes.reads[0].1, read.nanos());
        assert_eq!(sink.received, Some(if full_duplex { act } else { read } + LINK));
    }
}

/// Reads a part of a unit for command 0, and sends command 1 when that is answered.
#[derive(Default)]
struct Following(Vec<(u32, Instant)>);

impl Following {
    const PART: Nanoseconds = Nanoseconds::new(100);
}

impl Completions for Following {
    fn reads_commute(&self) -> bool {
        true
    }

    fn fetched(&mut self, nand: &mut Nand, tag: Tag, at: Instant) {
        self.0.push((tag.0, at));
        if tag == Tag(0) {
            let read = nand.begin_read(tag, false);
            nand.add_page(read, page(0, 1), Self::PART);
            nand.issue_read(read);
        }
    }
    fn read(&mut self, nand: &mut Nand, _: Tag, at: Instant, _: ReadTime) {
        nand.submit(at, Tag(1), Nanoseconds::ZERO);
    }
    fn programmed(&mut self, _: &mut Nand, _: Tag, _: Instant) {}
}

#[test]
fn a_command_that_follows_the_read_of_a_part_goes_before_one_that_is_sent_later() {
    let mut nand = nand(NO_SUSPEND, false);
    let mut sink = Following::default();
    let us = Nanoseconds::from_micros;
    let transferred = Instant::START + us(11) + SENSE + CHANNEL;
    nand.submit(Instant::START, Tag(0), Nanoseconds::ZERO);
    // Between the end of the part's time on the link and that of a unit's.
    nand.submit(transferred + LINK / 2, Tag(2), Nanoseconds::ZERO);
    nand.run_until(Instant::from_nanos(1 << 40), &mut sink);
    let answered = transferred + Following::PART;
    assert_eq!(sink.0[1..], [(1, answered + us(11)), (2, answered + us(12))]);
}

#[test]
fn a_page_sensed_with_another_has_waited_for_nothing() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    let link = nand.link_time(1);
    let read = nand.begin_read(Tag(1), false);
    nand.add_page(read, page(0, 1), link);
    nand.add_page(read, page(4, 1), link);
    assert_eq!(nand.issue_read(read), 0, "no register holds a page");
    finish(&mut nand, &mut notes);
    let time = ReadTime { sense: SENSE, transfer: CHANNEL, ..ReadTime::default() };
    assert_eq!(notes.reads, [(1, (SENSE + CHANNEL * 2 + LINK).nanos(), time)]);
}

#[test]
fn pages_of_one_group_are_loaded_with_one_sense() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    assert!(nand.load_page(Tag(1), page(0, 4), false), "it is sensed");
    nand.load_page_with_last(Tag(2), page(4, 4));
    finish(&mut nand, &mut notes);
    assert_eq!(nand.now().nanos(), (SENSE + CHANNEL * 8).nanos());
}

/// Processes one event after the other, each at the instant that `next_due` returned before. Returns their
/// number.
fn finish_in_steps(nand: &mut Nand, notes: &mut Notes) -> u64 {
    let mut steps = 0;
    while let Some(due) = nand.next_due() {
        assert!(!nand.is_idle());
        let before = Instant::from_nanos(due.nanos() - 1);
        assert!(!nand.step(before, notes), "nothing is due before {due:?}");
        assert!(nand.step(due, notes));
        assert_eq!(nand.now(), due);
        steps += 1;
    }
    assert!(nand.is_idle());
    steps
}

#[test]
fn what_happens_next_is_known_with_its_instant() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, false), Notes::default());
    assert_eq!(nand.next_due(), None);
    nand.program(Tag(7), program(0, None));
    nand.set_alarm(Instant::from_nanos(50_000), Tag(0));
    submit_read(&mut nand, 32);
    let steps = finish_in_steps(&mut nand, &mut notes);
    assert_eq!(steps, 5, "data, alarm, command, end of the program, transfer");
    assert_eq!((notes.programmed.len(), notes.reads.len()), (1, 1));
}

#[test]
fn all_that_is_due_has_happened_although_a_command_is_acted_on_soon_after() {
    let mut nand = nand(NO_SUSPEND, false);
    let mut sink = Commuting::default();
    let us = Nanoseconds::from_micros;
    nand.submit(Instant::START, Tag(0), Nanoseconds::ZERO);
    let transferred = Instant::START + us(11) + SENSE + CHANNEL;
    // The controller could act on it ahead of the transfer.
    nand.submit(Instant::START + us(1) + SENSE + CHANNEL, Tag(1), Nanoseconds::ZERO);
    nand.run_until(transferred, &mut sink);
    let reported: Vec<u32> = sink.notes.reads.iter().map(|read| read.0).collect();
    assert_eq!(reported, [0]);
}

/// Reads a page on each of two dies of one channel for command 0, the higher die first.
#[derive(Default)]
struct HigherFirst(Vec<(u32, Instant)>);

impl Completions for HigherFirst {
    fn fetched(&mut self, nand: &mut Nand, _: Tag, _: Instant) {
        nand.read_unit(Tag(2), PhysicalUnit(16), SENSE);
        nand.read_unit(Tag(1), PhysicalUnit(0), SENSE);
    }
    fn read(&mut self, _: &mut Nand, tag: Tag, at: Instant, _: ReadTime) {
        self.0.push((tag.0, at));
    }
    fn programmed(&mut self, _: &mut Nand, _: Tag, _: Instant) {}
}

#[test]
fn pages_that_are_sensed_at_one_instant_cross_in_the_order_in_which_they_were_asked_for() {
    let mut nand = nand(NO_SUSPEND, false);
    let mut sink = HigherFirst::default();
    nand.submit(Instant::START, Tag(0), Nanoseconds::ZERO);
    nand.run_until(Instant::from_nanos(1 << 40), &mut sink);
    let first = Instant::START + Nanoseconds::from_micros(11) + SENSE + CHANNEL + LINK;
    assert_eq!(sink.0, [(2, first), (1, first + CHANNEL)]);
}

#[test]
fn a_read_from_a_page_register_waits_for_what_is_left_of_the_sensing() {
    let (mut nand, mut notes) = (nand(NO_SUSPEND, true), Notes::default());
    let link = nand.link_time(1);
    let read = |nand: &mut Nand, tag, unit| {
        let read = nand.begin_read(Tag(tag), true);
        nand.add_page(read, page(unit, 1), link);
        nand.issue_read(read)
    };
    assert_eq!(read(&mut nand, 1, 0), 0, "it is sensed");
    let asked = Nanoseconds::from_micros(20);
    nand.set_alarm(Instant::START + asked, Tag(0));
    nand.run_until(Instant::START + asked, &mut notes);
    assert_eq!(read(&mut nand, 2, 1), 1, "it is being sensed");
    finish(&mut nand, &mut notes);
    assert_eq!(read(&mut nand, 3, 2), 1, "it was sensed");
    finish(&mut nand, &mut notes);
    let senses: Vec<_> = notes.reads.iter().map(|(tag, _, time)| (*tag, time.sense)).collect();
    assert_eq!(senses, [(1, SENSE), (2, SENSE - asked), (3, Nanoseconds::ZERO)]);
}

#[test]
fn a_program_stops_at_the_end_of_its_pulse() {
    let us = Nanoseconds::from_micros;
    let step = us(90);
    let suspend = SuspendParameters {
        operations: Suspendable::Program,
        step,
        suspend: us(20),
        resume: us(7),
        most: 1,
        when: SuspendWhen::Always,
    };
    let (mut nand, mut notes) = (nand(suspend, false), Notes::default());
    nand.program(Tag(7), program(0, None));
    submit_read(&mut nand, 32);
    finish(&mut nand, &mut notes);
    let end = CHANNEL * 8 + PROGRAM;
    let mut stopped = end;
    while stopped >= ARRIVAL + step {
        stopped -= step;
    }
    assert!(
        ARRIVAL < stopped && stopped < end - step,
        "in the midst of a pulse that is not the last"
    );
    assert_eq!(notes.reads[0].1, read_from(stopped + us(20)));
    assert_eq!(notes.reads[0].2.blocked_by_program, stopped + us(20) - ARRIVAL);
    // The part of the program that was done in the pulse counts.
    assert_eq!(notes.programmed, [(7, (end + us(20) + SENSE + us(7)).nanos())]);
}

#[test]
fn a_read_that_came_while_the_buffer_was_full_is_sensed_with_the_next_that_stops_the_program() {
    let us = Nanoseconds::from_micros;
    let suspend = SuspendParameters {
        operations: Suspendable::Program,
        step: Nanoseconds::ZERO,
        suspend: us(20),
        resume: us(7),
        most: 4,
        when: SuspendWhen::BufferHasRoom,
    };
    let (mut nand, mut notes) = (nand(suspend, false), Notes::default());
    nand.program(Tag(7), program(0, None));
    nand.set_buffer_full(true);
    submit_read(&mut nand, 32);
    nand.run_until(Instant::from_nanos(200_000), &mut notes);
    assert!(notes.reads.is_empty(), "nothing is stopped while the buffer is full");
    nand.set_buffer_full(false);
    nand.submit(Instant::from_nanos(300_000), Tag(64), Nanoseconds::ZERO);
    finish(&mut nand, &mut notes);
    let stopped = us(311 + 20);
    let [first, second] = notes.reads[..] else { panic!("two reads: {:?}", notes.reads) };
    assert_eq!((first.0, first.1), (32, read_from(stopped)));
    assert_eq!(first.2.blocked_by_program, stopped - ARRIVAL);
    assert_eq!((second.0, second.1), (64, read_from(stopped + SENSE)));
    let end = CHANNEL * 8 + PROGRAM + us(20) + SENSE * 2 + us(7);
    assert_eq!(notes.programmed, [(7, end.nanos())]);
}
