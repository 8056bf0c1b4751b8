//! Random histories on random drives, each with a cut at its end.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::power_cut::explore::{Finding, shortest_failure};
use ssdlab_model::power_cut::history::Step;
use ssdlab_model::power_cut::tested::Tested;
use ssdlab_model::recovery::RecoveryError;

use crate::drives::{KINDS, configuration_of, pick};

/// What a run has met.
#[derive(Debug, Default)]
pub struct Met {
    pub histories: u64,
    /// By kind.
    pub of_kind: [u64; KINDS.len()],
    pub with_streams: u64,
    pub unreadable: u64,
    pub saved: u64,
    pub padded: u64,
    pub to_erase: u64,
    pub with_saved_map: u64,
    /// What the drives had done by the cut.
    pub compacted: u64,
    pub filled_empty: u64,
    pub merges: u64,
    pub folded: u64,
    /// Cuts while a drive recovered from another, and what recoveries did by themselves.
    pub in_recovery: u64,
    pub with_bad_blocks: u64,
    pub failed_blocks: u64,
    pub retired_blocks: u64,
    pub read_only: u64,
    pub levelled_apart: u64,
    /// Histories that ended with several requests in flight; parts of units that were merged with what
    /// the rest of them held.
    pub together: u64,
    pub merged: u64,
    /// Drives that a cut has left without room to copy to, which is as bad as a broken rule: no run
    /// passes with one, but a long run goes on to see what else there is.
    pub given_up: u64,
    pub own_programs: u64,
    pub own_erases: u64,
}

/// Random histories, one after the other on the same drive, each with a cut at its end. A new
/// drive every few of them.
pub fn random_histories(seed: u64, histories: u64) -> Met {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut met = Met::default();
    while met.histories < histories {
        let kind = generator.random_range(0..KINDS.len());
        let configuration = configuration_of(&mut generator, KINDS[kind]);
        let before = met.histories;
        cut_at_random(&configuration, 20, &mut generator, &mut met);
        met.of_kind[kind] += met.histories - before;
    }
    met
}

/// Says which drive it was when the model panics.
struct Says<'a>(&'a Configuration);

impl Drop for Says<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.0);
        }
    }
}

/// Histories, one after the other on the same drive, each with a cut at its end.
pub fn cut_at_random(
    configuration: &Configuration,
    histories: u32,
    generator: &mut Pcg64Mcg,
    met: &mut Met,
) {
    let _says = Says(configuration);
    let mut tested = Tested::new(configuration, None).expect("a sound drive");
    tested.age(generator);
    for _ in 0..histories {
        let steps = [4, 12, 30, 60][generator.random_range(0..4)];
        let (before, replay) = (tested.clone(), generator.clone());
        tested.step_at_random(generator, steps);
        let counters = tested.drive().counters();
        met.compacted += counters.condensed_regions;
        met.filled_empty += counters.condensed_empty_units;
        met.merges += counters.full_merges + counters.partial_merges + counters.switch_merges;
        met.folded += counters.slc_erases;
        met.with_bad_blocks += u64::from(configuration.mechanisms.wear.bad_blocks.is_some());
        met.failed_blocks += counters.failed_blocks;
        met.retired_blocks += counters.retired_blocks;
        if configuration.mechanisms.wear.levelling.streams() > 0 {
            met.levelled_apart += counters.levelled_blocks;
        }
        met.merged += counters.buffer_merge_units + counters.flash_page_reads_merge;
        met.read_only += u64::from(counters.refused_writes > 0);
        met.together += u64::from(tested.in_flight() > 1);
        match tested.cut_at_random(generator) {
            Ok(recovery) => {
                met.histories += 1;
                met.with_streams += u64::from(configuration.mechanisms.streams.count > 1);
                met.unreadable += recovery.program_units_unreadable;
                met.saved += u64::from(recovery.units_saved);
                met.padded += u64::from(recovery.program_units_padded);
                met.to_erase += u64::from(recovery.blocks_to_erase);
                met.with_saved_map += u64::from(recovery.map_pages_read > 0);
                let counters = tested.drive().counters();
                met.own_programs += counters.programs;
                met.own_erases += counters.erases;
            }
            Err(Finding::Recovery(error @ RecoveryError::NoRoom { .. })) => {
                met.given_up += 1;
                println!("{error}: {configuration:?}");
                return;
            }
            Err(finding) => report(configuration, &before, replay, steps, &finding),
        }
        while pick(generator, &[0, 1]) == 1 {
            match tested.cut_recovery_at_random(generator) {
                Ok(_) => met.in_recovery += 1,
                Err(Finding::Recovery(error @ RecoveryError::NoRoom { .. })) => {
                    met.given_up += 1;
                    println!("after a cut in recovery, {error}: {configuration:?}");
                    return;
                }
                Err(finding) => report(configuration, &before, replay, steps, &finding),
            }
        }
    }
}

/// Fails with the shortest history that shows `finding`.
fn report(
    configuration: &Configuration,
    before: &Tested,
    mut generator: Pcg64Mcg,
    steps: u32,
    finding: &Finding,
) -> ! {
    let units = before.units();
    let steps: Vec<Step> = (0..steps).map(|_| Step::random(&mut generator, units)).collect();
    if before.explore(&steps).is_ok() {
        panic!(
            "{configuration:?}\n{finding}\nwhat two cuts and a few writes do not show: {steps:?}"
        );
    }
    let (shortest, failure) = shortest_failure(before, &steps);
    let steps: String = shortest.iter().map(|step| format!("{step}\n")).collect();
    panic!("{configuration:?}\n{finding}\n{steps}{failure:?}\n{}", failure.finding);
}
