//! The engine against a slow, plain event simulator: the same requests, to the nanosecond.

mod cases;
mod drive;
mod reference;

use cases::{Case, FILL};
use drive::{Drive, Engine, Workload};
use reference::ReferenceFlash;
use reference::power_cut::Change;
use ssdlab_nand::{FlashOperation, Progress};
use ssdlab_units::{Instant, Nanoseconds};

/// Runs a case on both. Returns where they first differ.
fn difference(number: u64) -> Option<String> {
    let Case { parameters, dies, load } = Case::of(number);
    let logical = u64::from(parameters.geometry.logical_units());
    let mut engine = Engine::new(&parameters, dies);
    let mut slow = ReferenceFlash::new(&parameters, dies);
    let mut slow_drive = Drive::new(&parameters);
    let answers = vec![Vec::new(); parameters.depth as usize];
    for kept in [&mut engine.sink.drive.host.answers, &mut slow_drive.host.answers] {
        *kept = Some(answers.clone());
    }
    for trace in [&mut engine.sink.drive.trace, &mut slow_drive.trace] {
        *trace = Some(Vec::new());
    }
    let phases = [(FILL, logical / 8), (Workload::WRITES, logical / 2), (load, 2_000)];
    for (phase, (load, requests)) in phases.into_iter().enumerate() {
        engine.run(load, requests);
        slow.run(&mut slow_drive, load, requests);
        let description = format!(
            "case {number}, phase {phase}: {load:?} {dies:?} eager {} dies {} channels {} {:?}",
            parameters.is_eager,
            parameters.geometry.dies(),
            parameters.geometry.channels(),
            parameters.timing
        );
        let (fast, slow) = (&engine.sink.drive.host, &slow_drive.host);
        for (host, name) in [(fast, "the engine"), (slow, "the slow simulator")] {
            assert!(
                host.answered.iter().sum::<u64>() >= requests,
                "{name} answers all: {description}"
            );
        }
        let answers = [fast, slow].map(|host| host.answers.as_ref().expect("they are kept"));
        let slots = answers[0].iter().zip(answers[1]).enumerate();
        let differences = slots.filter_map(|(slot, (fast, slow))| {
            let place = fast.iter().zip(slow).position(|(fast, slow)| fast != slow)?;
            Some((fast[place].2.min(slow[place].2), slot, place, fast[place], slow[place]))
        });
        if let Some((at, slot, request, fast, slow)) = differences.min_by_key(|it| it.0) {
            return Some(format!(
                "at {at} request {request} of slot {slot}: {fast:?}, slowly {slow:?}; {description}"
            ));
        }
        let traces = [&engine.sink.drive.trace, &slow_drive.trace];
        let [fast, slow] = traces.map(|trace| {
            let mut trace = trace.clone().expect("it is kept");
            trace.sort();
            trace
        });
        if let Some(place) = fast.iter().zip(&slow).position(|(fast, slow)| fast != slow) {
            return Some(format!(
                "flash: {:?}, slowly {:?}; {description}",
                fast[place], slow[place]
            ));
        }
        assert_eq!(fast.len(), slow.len(), "{description}");
        let programs = [engine.sink.drive.program_units(), slow_drive.program_units()];
        assert_eq!(programs[0], programs[1], "{description}");
        assert!(engine.nand.is_idle(), "{description}");
    }
    None
}

type Changes = Vec<(u32, Change<u32>, Progress)>;

/// The programs and erases that are under way on the engine, and slowly.
fn in_flight(
    engine: &Engine,
    slow: &ReferenceFlash,
    slow_drive: &Drive<reference::ReferenceHandles>,
) -> [Changes; 2] {
    let fast = engine.nand.operations_in_flight().into_iter().map(|it| {
        let change = match it.operation {
            FlashOperation::Program(tag) => Change::Program(tag.0),
            FlashOperation::CopyProgram(copies) => Change::CopyProgram(copies.index()),
            FlashOperation::Erase(erase) => {
                Change::Erase(engine.sink.drive.blocks.block_erased_by(erase))
            }
        };
        (it.die.0, change, it.progress)
    });
    let slow = slow.operations_in_flight().into_iter().map(|(die, change, progress)| {
        (die, change.map(|erase| slow_drive.blocks.block_erased_by(erase)), progress)
    });
    // In line at no die they come in any order.
    [fast.collect(), slow.collect()].map(|mut list: Changes| {
        let order = |it: &(u32, Change<u32>, Progress)| matches!(it.1, Change::CopyProgram(_));
        list.sort_by_key(|it| (order(it), it.0, order(it).then(|| format!("{:?}", it.1))));
        list
    })
}

/// Stops a case under its load. Compares what is under way with what is so slowly, lets a clone and the engine
/// go on side by side, and begins anew on the flash after a power cut. Returns how many programs and erases
/// were under way.
fn stop_and_compare(number: u64) -> usize {
    let Case { parameters, dies, load } = Case::of(number);
    let logical = u64::from(parameters.geometry.logical_units());
    let mut engine = Engine::new(&parameters, dies);
    let mut slow = ReferenceFlash::new(&parameters, dies);
    let mut slow_drive = Drive::new(&parameters);
    for (load, requests) in [(FILL, logical / 8), (Workload::WRITES, logical / 2)] {
        engine.run(load, requests);
        slow.run(&mut slow_drive, load, requests);
    }
    engine.begin(load, 500);
    slow.begin_phase(&mut slow_drive, load, 500);
    // Somewhere within the first of them.
    let programs = Nanoseconds::new(parameters.timing.program.nanos() * (number % 37) / 12);
    let until = engine.nand.now() + programs + parameters.timing.command_latency * 3;
    engine.run_until(until);
    slow.run_until(&mut slow_drive, until.nanos());
    let [fast, slowly] = in_flight(&engine, &slow, &slow_drive);
    assert_eq!(fast, slowly, "case {number}: what is under way at {until:?}");

    let kept = vec![Vec::new(); parameters.depth as usize];
    engine.sink.drive.host.answers = Some(kept.clone());
    let (mut clone, mut cut) = (engine.clone(), engine.clone());
    for engine in [&mut engine, &mut clone] {
        engine.sink.drive.trace = Some(Vec::new());
        engine.run_until(Instant::from_nanos(u64::MAX - 1));
        assert!(engine.nand.is_idle(), "case {number}");
    }
    assert_eq!(engine.sink.drive.trace, clone.sink.drive.trace, "case {number}: a clone");
    let answers = |engine: &Engine| engine.sink.drive.host.answers.clone();
    assert_eq!(answers(&engine), answers(&clone), "case {number}: a clone");

    cut.nand.cut_power();
    assert!(
        cut.nand.is_idle() && cut.nand.operations_in_flight().is_empty(),
        "case {number}: a power cut"
    );
    let passed = cut.nand.now().since(Instant::START);
    let mut new = Engine::new(&parameters, dies);
    new.sink.drive.host.answers = Some(kept);
    cut.sink = new.sink.clone();
    for engine in [&mut new, &mut cut] {
        engine.run(FILL, logical / 8);
        engine.run(load, 200);
    }
    let mut expected = answers(&new).expect("they are kept");
    expected.iter_mut().flatten().for_each(|it| it.2 += passed.nanos());
    assert_eq!(answers(&cut), Some(expected), "case {number}: after a power cut");
    fast.len()
}

/// The numbers of the cases: those that `NAND_CASES` asks for, or the first `count`.
fn cases(count: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("NAND_CASES").ok();
    let asked = asked.as_deref().and_then(|cases| cases.split_once(".."));
    let number = |text: &str| text.parse().expect("NAND_CASES is a range such as 0..500");
    asked.map_or(0..count, |(from, to)| number(from)..number(to))
}

#[test]
fn every_request_ends_when_the_reference_simulator_says() {
    let all = cases(200);
    let differences: Vec<String> = all.clone().filter_map(difference).collect();
    let (count, all) = (differences.len(), all.end - all.start);
    assert!(differences.is_empty(), "{count} of {all} cases differ:\n{}", differences.join("\n"));
}

#[test]
fn a_clone_goes_on_alike_and_a_power_cut_leaves_idle_flash() {
    let in_flight: usize = cases(100).map(stop_and_compare).sum();
    assert!(in_flight > 0, "something is under way when it stops");
}
