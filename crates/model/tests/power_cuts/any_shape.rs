//! Small drives of any shape, with any set of mechanisms, cut between any two things that happen.
//!
//! Without more the drives are always the same ones; `SSDLAB_POWER_CUT_CASES=3000` asks for so many others.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::checkpoint::CheckpointParameters;
use ssdlab_model::health::WearParameters;
use ssdlab_model::policy::CopiesTo;
use ssdlab_model::power_cut::history::Step;
use ssdlab_model::power_cut::tested::Tested;
use ssdlab_model::retention::RetentionParameters;
use ssdlab_model::slc::{SlcParameters, SlcSpace, WhenFull};
use ssdlab_model::streams::StreamParameters;
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::Nanoseconds;

use crate::histories::{Met, cut_at_random};
use crate::log_blocks::with_log_blocks;
use crate::shapes::{configuration, wear, with_cached_map, with_extents};

fn cases(count: u32) -> ProptestConfig {
    let asked = std::env::var("SSDLAB_POWER_CUT_CASES").ok().and_then(|it| it.parse().ok());
    let config = ProptestConfig { failure_persistence: None, ..Default::default() };
    match asked {
        Some(cases) => ProptestConfig { cases, ..config },
        None => ProptestConfig { cases: count, rng_seed: RngSeed::Fixed(1), ..config },
    }
}

/// Cuts a drive in several lives, one after the other, and while it recovers from some of these cuts.
fn survives(configuration: &Configuration, seed: u64) {
    let (mut generator, mut met) = (Pcg64Mcg::seed_from_u64(seed), Met::default());
    let lives = generator.random_range(1..6);
    if configuration.check_spare().is_err() || configuration.check_mapping().is_err() {
        return;
    }
    cut_at_random(configuration, lives, &mut generator, &mut met);
    assert_eq!(met.given_up, 0, "{configuration:?}, seed {seed}");
}

/// Configures wear, and how often the map is saved; data ages.
fn with_wear(
    mut configuration: Configuration,
    wear: WearParameters,
    saved_every: Option<u64>,
) -> Configuration {
    configuration.mechanisms.wear = wear;
    configuration.mechanisms.checkpoint =
        saved_every.map(|every_units| CheckpointParameters { every_units });
    configuration.mechanisms.retention = Some(RetentionParameters {
        retry: Nanoseconds::from_micros(50),
        free_for: Nanoseconds::from_millis(100),
        steps: 5.0,
        worn_steps: 5.0,
        rated: None,
    });
    configuration
}

/// Adds a cache in pseudo-SLC mode, and blocks for it.
fn with_cache(mut configuration: Configuration, slc: SlcParameters) -> Configuration {
    let geometry = &configuration.geometry;
    let mut parameters = geometry.parameters().clone();
    if parameters.pages_per_shot != slc.bits {
        let multiple = slc.bits * parameters.pages_per_shot;
        parameters.pages_per_block = parameters.pages_per_block.next_multiple_of(multiple);
    }
    parameters.dies_per_collection_unit = parameters.dies;
    parameters.collection_units = geometry.blocks_per_group() + 2 * slc.blocks + 2;
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.mechanisms.slc = Some(slc);
    configuration.mechanisms.copies = CopiesTo::OwnBlock;
    configuration.mechanisms.rotation = 0.0;
    configuration.mechanisms.streams = StreamParameters::default();
    configuration
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn what_was_durable_is_there(configuration in configuration(), seed: u64) {
        survives(&configuration, seed);
    }

    #[test]
    fn what_was_durable_is_there_where_blocks_go_bad_and_data_ages(
        configuration in configuration(),
        wear in wear(),
        saved_every in proptest::option::of(1..300u64),
        seed: u64,
    ) {
        survives(&with_wear(configuration, wear, saved_every), seed);
    }

    #[test]
    fn what_was_durable_is_there_with_a_pseudo_slc_cache(
        configuration in configuration(),
        (blocks, bits, is_dynamic, folds) in (1..4u32, 2..4u32, any::<bool>(), any::<bool>()),
        seed: u64,
    ) {
        let slc = SlcParameters {
            blocks,
            bits,
            space: if is_dynamic { SlcSpace::Dynamic } else { SlcSpace::Fixed },
            fixed: u32::from(is_dynamic),
            when_full: if folds { WhenFull::Fold } else { WhenFull::Direct },
            program: Nanoseconds::from_micros(200),
            page_read: Nanoseconds::from_micros(30),
        };
        survives(&with_cache(configuration, slc), seed);
    }

    #[test]
    fn what_was_durable_is_there_with_a_cached_map(
        configuration in configuration(),
        pages in 4..20u32,
        seed: u64,
    ) {
        survives(&with_cached_map(&configuration, pages), seed);
    }

    #[test]
    fn what_was_durable_is_there_with_a_map_of_extents(
        configuration in configuration(),
        room in 0..20u32,
        seed: u64,
    ) {
        survives(&with_extents(&configuration, room), seed);
    }

    #[test]
    fn what_was_durable_is_there_with_log_blocks(
        configuration in configuration(),
        log_blocks in 1..5u32,
        seed: u64,
    ) {
        survives(&with_log_blocks(&configuration, log_blocks), seed);
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn every_cut_of_a_short_history_keeps_what_was_durable(
        configuration in configuration(),
        seed: u64,
        steps in 1..12usize,
    ) {
        let Ok(mut tested) = Tested::new(&configuration, None) else { return Ok(()) };
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        tested.age(&mut generator);
        let units = tested.units();
        let history: Vec<Step> = (0..steps).map(|_| Step::random(&mut generator, units)).collect();
        if let Err(failure) = tested.explore(&history) {
            panic!("{configuration:?}\n{history:?}\n{failure:?}");
        }
    }
}
