//! Write amplification against its closed forms, for every policy that has one: a full drive in
//! steady state, written one unit at a time.
//!
//! The closed forms know blocks that hold data and nothing else. A drive keeps some blocks free,
//! and has one that the host fills, one that collection fills and one that is being emptied. What
//! they are worth is measured, not assumed: the medium counts the units that are programmed and
//! not yet erased, and the mean of that over the run is the physical size that goes into the
//! formula. The one thing a medium cannot see is how much of the victim was moved already; over
//! time that is half of a block.
//!
//! What runs unless asked is a part of the grid. All of it, every block size with every spare:
//! `cargo test --release -p ssdlab-model --test whole_drives write_amplification -- --ignored --nocapture`

mod bench;

use bench::{Bench, Case, Spare, Steady, Workload};
use ssdlab_model::policy::VictimPolicy;
use ssdlab_theory::hot_cold::{HotCold, Split};
use ssdlab_theory::{Choices, SpareFactor, UnitsPerBlock, d_choices, fifo, greedy, random, trim};

/// How far the model may be from the closed form.
const LIMIT: f64 = 0.01;

/// The same for greedy, whose victims leave nothing to chance.
const LIMIT_GREEDY: f64 = 0.005;

/// 80 % of the writes to 20 % of the pages.
const HOT_COLD: Workload = Workload::HotCold { writes: 0.8, pages: 0.2 };

fn d(choices: u32) -> VictimPolicy {
    VictimPolicy::DChoices(Choices::new(choices).expect("some choices"))
}

/// A spare factor from what was measured: `physical` units and so many blocks too many.
fn spare(case: &Case, physical: f64, too_many: f64, logical: u32) -> SpareFactor {
    let physical = physical - too_many * f64::from(case.units_per_block);
    SpareFactor::from_counts(physical.round() as u64, logical.into()).expect("sound")
}

/// Returns what theory says of a case on a drive with `spare`.
fn expected(case: &Case, run: &Steady) -> f64 {
    let units = UnitsPerBlock::new(case.units_per_block).expect("sound");
    let of_policy = |spare| match case.policy {
        VictimPolicy::Greedy => greedy::write_amplification(spare, units),
        VictimPolicy::Fifo => fifo::write_amplification(spare),
        VictimPolicy::Random => random::write_amplification(spare),
        VictimPolicy::DChoices(choices) => d_choices::write_amplification(spare, units, choices),
        VictimPolicy::CostBenefit => panic!("there is no closed form for cost-benefit"),
    };
    let all = spare(case, run.programmed, 0.5, run.logical_units);
    match case.workload {
        Workload::Uniform => of_policy(all),
        Workload::Trim { share } => {
            of_policy(trim::effective_spare(all, share).expect("a sound share"))
        }
        Workload::HotCold { writes, pages } => {
            assert_eq!(case.policy, VictimPolicy::Fifo, "one stream has a closed form for FIFO");
            HotCold::new(writes, pages).expect("sound shares").fifo_one_stream(all)
        }
        Workload::TwoStreams { writes, pages, .. } => {
            let of_hot = run.erases_hot / 2.0;
            let cold = run.programmed - run.programmed_hot;
            let split = Split {
                hot: spare(case, run.programmed_hot, of_hot, run.hot_units),
                cold: spare(case, cold, 0.5 - of_hot, run.logical_units - run.hot_units),
            };
            HotCold::new(writes, pages).expect("sound shares").separate_streams(split, of_policy)
        }
    }
}

/// Runs a case; says how far it is from theory.
fn deviation(case: &Case) -> f64 {
    let run = Bench::steady(case);
    let expected = expected(case, &run);
    let deviation = run.write_amplification / expected - 1.0;
    println!(
        "{case}: {:.4}, closed form {expected:.4} ({:+.3} %), {:.2} blocks hold nothing",
        run.write_amplification,
        deviation * 100.0,
        f64::from(case.blocks) - run.programmed / f64::from(case.units_per_block),
    );
    deviation
}

fn check(cases: impl IntoIterator<Item = Case>) {
    let far = |case: &Case| {
        let limit = if case.is_plain_greedy() { LIMIT_GREEDY } else { LIMIT };
        deviation(case).abs() >= limit
    };
    let far: Vec<String> = cases.into_iter().filter(far).map(|case| case.to_string()).collect();
    assert!(far.is_empty(), "beyond the limit: {}", far.join("; "));
}

/// Every block size with every spare.
fn grid(policy: VictimPolicy, workload: Workload) -> impl Iterator<Item = Case> {
    [64, 128, 256].into_iter().flat_map(move |units| {
        [0.07, 0.10, 0.15, 0.20, 0.28]
            .map(|share| Case::new(units, Spare::OfLogical(share), policy, workload))
    })
}

/// The ends of that for the block size that costs least.
fn ends(policy: VictimPolicy, workload: Workload) -> impl Iterator<Item = Case> {
    [0.07, 0.28]
        .into_iter()
        .map(move |share| Case::new(64, Spare::OfLogical(share), policy, workload))
}

#[test]
fn greedy_with_little_spare_area_of_logical() {
    check(
        [(64, 0.07), (128, 0.07), (128, 0.10), (64, 0.15)]
            .map(|(units, share)| Case::greedy(units, Spare::OfLogical(share))),
    );
}

#[test]
fn greedy_with_much_spare_area_of_logical() {
    check(
        [(256, 0.20), (64, 0.28)]
            .map(|(units, share)| Case::greedy(units, Spare::OfLogical(share))),
    );
}

#[test]
fn greedy_with_spare_area_of_physical() {
    check(
        [(128, 0.07), (64, 0.10), (256, 0.28)]
            .map(|(units, share)| Case::greedy(units, Spare::OfPhysical(share))),
    );
}

#[test]
fn random_victims() {
    check(ends(VictimPolicy::Random, Workload::Uniform));
}

#[test]
fn the_oldest_victim() {
    check(ends(VictimPolicy::Fifo, Workload::Uniform));
    check([Case::new(128, Spare::OfPhysical(0.07), VictimPolicy::Fifo, Workload::Uniform)]);
}

#[test]
fn the_better_of_two_and_the_best_of_ten() {
    check(ends(d(2), Workload::Uniform));
    check(ends(d(10), Workload::Uniform));
    check([Case::new(256, Spare::OfLogical(0.20), d(10), Workload::Uniform)]);
}

#[test]
fn hot_and_cold_data_in_one_stream() {
    check(ends(VictimPolicy::Fifo, HOT_COLD));
}

/// The same with a stream for each, at the split of the spare that is best for FIFO, and at one
/// that gives a third of it to the hot one.
fn two_streams(spare: f64) -> [Workload; 2] {
    let Workload::HotCold { writes, pages } = HOT_COLD else { unreachable!("it is hot and cold") };
    let factor = SpareFactor::from_spare_of_logical(spare).expect("sound");
    let hot_cold = HotCold::new(writes, pages).expect("sound shares");
    let best = hot_cold.best_split(factor, fifo::write_amplification).hot_spare_share;
    [best, 1.0 / 3.0].map(|share| {
        let split = hot_cold.split(factor, share).expect("a sound share");
        let blocks = pages * split.hot.alpha() / factor.alpha();
        Workload::TwoStreams { writes, pages, blocks }
    })
}

#[test]
fn hot_and_cold_data_in_streams_of_their_own() {
    for share in [0.07, 0.28] {
        check(
            two_streams(share).map(|workload| {
                Case::new(64, Spare::OfLogical(share), VictimPolicy::Fifo, workload)
            }),
        );
    }
}

#[test]
fn trimmed_space_is_spare() {
    for share in [0.1, 0.3] {
        check(ends(VictimPolicy::Greedy, Workload::Trim { share }));
        check(ends(VictimPolicy::Fifo, Workload::Trim { share }));
    }
}

#[test]
#[ignore = "the whole grid: a minute for each policy"]
fn the_whole_grid_of_greedy() {
    check(grid(VictimPolicy::Greedy, Workload::Uniform).map(Case::large));
}

#[test]
#[ignore = "the whole grid"]
fn the_whole_grid_of_random() {
    check(grid(VictimPolicy::Random, Workload::Uniform));
}

#[test]
#[ignore = "the whole grid"]
fn the_whole_grid_of_fifo() {
    check(grid(VictimPolicy::Fifo, Workload::Uniform));
}

#[test]
#[ignore = "the whole grid"]
fn the_whole_grid_of_d_choices() {
    check(grid(d(2), Workload::Uniform).chain(grid(d(10), Workload::Uniform)));
}

#[test]
#[ignore = "the whole grid"]
fn the_whole_grid_of_hot_and_cold_in_one_stream() {
    check(grid(VictimPolicy::Fifo, HOT_COLD));
}

#[test]
#[ignore = "the whole grid"]
fn the_whole_grid_of_hot_and_cold_in_two_streams() {
    for units in [64, 128, 256] {
        for share in [0.07, 0.10, 0.15, 0.20, 0.28] {
            for policy in [VictimPolicy::Fifo, VictimPolicy::Greedy] {
                check(
                    two_streams(share).map(|workload| {
                        Case::new(units, Spare::OfLogical(share), policy, workload)
                    }),
                );
            }
        }
    }
}

#[test]
#[ignore = "the whole grid"]
fn the_whole_grid_of_trim() {
    for share in [0.1, 0.3] {
        for policy in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::Random, d(2), d(10)]
        {
            check(grid(policy, Workload::Trim { share }));
        }
    }
}
