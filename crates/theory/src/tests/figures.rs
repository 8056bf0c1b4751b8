//! Figures known from other sources, to the digits they are given with.

use super::super::hot_cold::HotCold;
use super::super::{Choices, SpareFactor, UnitsPerBlock, d_choices, fifo, greedy, random, trim};

fn of_logical(share: f64) -> SpareFactor {
    SpareFactor::from_spare_of_logical(share).unwrap()
}

fn of_physical(share: f64) -> SpareFactor {
    SpareFactor::from_spare_of_physical(share).unwrap()
}

fn units(count: u32) -> UnitsPerBlock {
    UnitsPerBlock::new(count).unwrap()
}

fn greedy_of(spare: SpareFactor, count: u32) -> f64 {
    greedy::write_amplification(spare, units(count))
}

fn d_choices_of(spare: SpareFactor, count: u32, choices: u32) -> f64 {
    d_choices::write_amplification(spare, units(count), Choices::new(choices).unwrap())
}

#[track_caller]
fn assert_reads(value: f64, figure: &str) {
    let decimals = figure.split_once('.').unwrap().1.len();
    assert_eq!(format!("{value:.decimals$}"), figure);
}

#[test]
fn every_policy_gives_the_tabulated_write_amplification() {
    let table = [
        (of_logical(0.07), ["15.286", "7.817", "7.392", "7.597"]),
        (of_logical(0.20), ["6.000", "3.188", "3.119", "3.153"]),
        (of_physical(0.07), ["14.286", "7.318", "6.945", "7.124"]),
        (of_physical(0.28), ["3.571", "1.992", "1.967", "1.979"]),
    ];
    for (spare, [random, fifo, greedy_128, greedy_256]) in table {
        assert_reads(random::write_amplification(spare), random);
        assert_reads(fifo::write_amplification(spare), fifo);
        assert_reads(greedy_of(spare, 128), greedy_128);
        assert_reads(greedy_of(spare, 256), greedy_256);
    }
}

#[test]
fn few_choices_lie_between_random_and_greedy_as_tabulated() {
    let spare = of_logical(0.07);
    assert_reads(d_choices_of(spare, 64, 2), "10.277");
    assert_reads(d_choices_of(spare, 64, 10), "7.323");
    assert_reads(greedy_of(spare, 64), "7.010");
}

#[test]
fn fifo_gives_the_figure_of_xiang_and_kurkoski() {
    assert_reads(fifo::write_amplification(of_logical(0.3)), "2.36");
}

#[test]
fn separating_hot_from_cold_gives_the_tabulated_gain() {
    let mixed = HotCold::new(0.8, 0.2).unwrap();
    let spare = of_logical(0.07);
    assert_reads(mixed.fifo_one_stream(spare), "8.182");
    let best = mixed.best_split(spare, fifo::write_amplification);
    assert_reads(best.write_amplification, "5.254");
}

#[test]
fn trimming_gives_the_tabulated_gain() {
    for (trim_share, figure) in [(0.1, "3.108"), (0.3, "1.314")] {
        let spare = trim::effective_spare(of_logical(0.07), trim_share).unwrap();
        assert_reads(greedy_of(spare, 256), figure);
    }
}
