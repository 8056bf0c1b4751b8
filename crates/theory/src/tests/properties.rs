//! Properties that must hold for all parameters.

use proptest::prelude::*;

use super::super::hot_cold::HotCold;
use super::super::{
    Choices, SpareFactor, SteadyState, UnitsPerBlock, d_choices, fifo, greedy, random, trim,
};

/// Tolerance for rounding between two quantities that may be equal.
const ROUNDING: f64 = 1e-9;

/// Spare of logical capacity from 1e-6 to 1e3, uniform in the logarithm.
fn spare() -> impl Strategy<Value = SpareFactor> {
    (-6.0..3.0)
        .prop_map(|exponent: f64| SpareFactor::from_spare_of_logical(10f64.powf(exponent)).unwrap())
}

fn units() -> impl Strategy<Value = UnitsPerBlock> {
    prop_oneof![1u32..=64, 65u32..=1024].prop_map(|count| UnitsPerBlock::new(count).unwrap())
}

fn choices() -> impl Strategy<Value = Choices> {
    prop_oneof![1u32..=16, 17u32..=1000].prop_map(|count| Choices::new(count).unwrap())
}

fn hot_cold() -> impl Strategy<Value = HotCold> {
    (0.01..0.99, 0.01..0.99).prop_map(|(writes, pages)| HotCold::new(writes, pages).unwrap())
}

fn more(spare: SpareFactor) -> SpareFactor {
    SpareFactor::from_spare_of_logical(spare.spare_of_logical() * 1.1).unwrap()
}

fn check_shares(
    state: &SteadyState,
    spare: SpareFactor,
    units: UnitsPerBlock,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(state.shares().len(), units.get() as usize + 1);
    prop_assert!(state.shares().iter().all(|&share| share >= 0.0));
    prop_assert!((state.shares().iter().sum::<f64>() - 1.0).abs() < ROUNDING);
    let expected = spare.occupancy() * f64::from(units.get());
    prop_assert!((state.mean_valid_units() / expected - 1.0).abs() < ROUNDING);
    Ok(())
}

proptest! {
    #[test]
    fn the_shares_of_blocks_add_up_to_one_and_to_the_occupancy(
        spare in spare(), units in units(), choices in choices(),
    ) {
        check_shares(&greedy::steady_state(spare, units), spare, units)?;
        check_shares(&d_choices::steady_state(spare, units, choices), spare, units)?;
    }

    #[test]
    fn more_spare_never_means_more_writes(
        spare in spare(), units in units(), choices in choices(), mixed in hot_cold(),
    ) {
        let policies: [&dyn Fn(SpareFactor) -> f64; 6] = [
            &random::write_amplification,
            &fifo::write_amplification,
            &|spare| greedy::write_amplification(spare, units),
            &|spare| d_choices::write_amplification(spare, units, choices),
            &|spare| mixed.fifo_one_stream(spare),
            &|spare| mixed.best_split(spare, fifo::write_amplification).write_amplification,
        ];
        for amplification in policies {
            let (less, more) = (amplification(spare), amplification(more(spare)));
            prop_assert!(more >= 1.0 - ROUNDING && less.is_finite());
            prop_assert!(more <= less * (1.0 + ROUNDING));
        }
    }

    #[test]
    fn a_better_choice_of_victim_never_means_more_writes(
        spare in spare(), units in units(), choices in choices(),
    ) {
        let greedy = greedy::write_amplification(spare, units);
        let some = d_choices::write_amplification(spare, units, choices);
        let one_more = Choices::new(choices.get() + 1).unwrap();
        let more = d_choices::write_amplification(spare, units, one_more);
        let random = random::write_amplification(spare);
        prop_assert!(greedy <= more * (1.0 + ROUNDING));
        prop_assert!(more <= some * (1.0 + ROUNDING));
        prop_assert!(some <= random * (1.0 + ROUNDING));
        let fifo = fifo::write_amplification(spare);
        prop_assert!(greedy <= fifo * (1.0 + ROUNDING));
        prop_assert!(fifo <= random * (1.0 + ROUNDING));
    }

    #[test]
    fn separate_streams_are_never_worse_than_uniform_and_one_stream_never_better(
        spare in spare(), mixed in hot_cold(),
    ) {
        let uniform = fifo::write_amplification(spare);
        let best = mixed.best_split(spare, fifo::write_amplification);
        prop_assert!(best.write_amplification <= uniform * (1.0 + ROUNDING));
        prop_assert!(mixed.fifo_one_stream(spare) >= uniform * (1.0 - ROUNDING));
        let again = mixed.split(spare, best.hot_spare_share).unwrap();
        prop_assert_eq!(again, best.split);
    }

    #[test]
    fn trimming_only_ever_adds_spare(spare in spare(), less in 0.0..0.45, more in 0.0..0.04) {
        let few = trim::effective_spare(spare, less).unwrap();
        let many = trim::effective_spare(spare, less + more).unwrap();
        prop_assert!(spare.spare_of_logical() <= few.spare_of_logical());
        prop_assert!(few.spare_of_logical() <= many.spare_of_logical());
    }
}
