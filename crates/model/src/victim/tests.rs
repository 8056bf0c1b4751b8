//! Tests of the victim queue: random operations compared with a plain list.
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const BLOCKS: u32 = 64;
const UNITS: u32 = 32;

/// A closed block of the reference model.
#[derive(Clone, Copy, Debug)]
struct Plain {
    valid: u32,
    /// Steps at which the block was closed and at which its valid count last changed.
    closed: u64,
    changed: u64,
}

/// Compares random operations with a plain list; `check` judges each victim.
fn against_a_plain_list(
    policy: VictimPolicy,
    check: impl FnMut(&[Option<Plain>], BlockIndex, u64),
) {
    with_rotation_against_a_plain_list(policy, 0.0, check);
}

/// Compares random operations with a plain list, with a share of the victims taken in rotation.
fn with_rotation_against_a_plain_list(
    policy: VictimPolicy,
    share: f64,
    mut check: impl FnMut(&[Option<Plain>], BlockIndex, u64),
) {
    let mut generator = Pcg64Mcg::seed_from_u64(7);
    let mut queue = VictimQueue::new(policy, 1, BLOCKS, UNITS).with_rotation(share, BLOCKS);
    let mut plain: Vec<Option<Plain>> = vec![None; BLOCKS as usize];
    for now in 1..40_000u64 {
        let block = generator.random_range(0..BLOCKS);
        let slot = block as usize;
        match (generator.random_range(0..20u32), plain[slot]) {
            (0..=15, Some(it)) if it.valid > 0 => {
                queue.invalidate_unit(BlockIndex(block), it.valid);
                plain[slot] = Some(Plain { valid: it.valid - 1, changed: now, ..it });
            }
            (0..=15, None) => {
                queue.insert(BlockIndex(block), UNITS);
                plain[slot] = Some(Plain { valid: UNITS, closed: now, changed: now });
            }
            (16, Some(_)) => {
                queue.remove(BlockIndex(block));
                plain[slot] = None;
            }
            (17..=18, _) => {
                let valid = |block: BlockIndex| plain[block.0 as usize].unwrap().valid;
                let taken = queue.take(valid);
                assert_eq!(taken.is_none(), plain.iter().all(Option::is_none));
                if let Some(block) = taken {
                    check(&plain, block, now);
                    if now % 2 == 0 {
                        queue.put_back(block, valid(block));
                    } else {
                        plain[block.0 as usize] = None;
                    }
                }
            }
            _ => {}
        }
        assert_eq!(queue.len() as usize, plain.iter().flatten().count());
    }
}

fn closed(plain: &[Option<Plain>]) -> impl Iterator<Item = Plain> + '_ {
    plain.iter().flatten().copied()
}

#[test]
fn greedy_takes_the_block_with_the_fewest_valid_units() {
    against_a_plain_list(VictimPolicy::Greedy, |plain, block, _| {
        let valid = plain[block.0 as usize].expect("a closed block").valid;
        assert_eq!(Some(valid), closed(plain).map(|it| it.valid).min());
    });
}

#[test]
fn fifo_takes_the_block_that_was_closed_first() {
    against_a_plain_list(VictimPolicy::Fifo, |plain, block, _| {
        let at = plain[block.0 as usize].expect("a closed block").closed;
        assert_eq!(Some(at), closed(plain).map(|it| it.closed).min());
    });
}

#[test]
fn cost_benefit_takes_the_block_with_the_best_ratio() {
    // Ages here are steps, not changes: ranks agree only within a bucket, so the check is that
    // nothing with no more valid units has waited longer.
    against_a_plain_list(VictimPolicy::CostBenefit, |plain, block, _| {
        let it = plain[block.0 as usize].expect("a closed block");
        let better = |other: &Plain| other.valid <= it.valid && other.changed < it.changed;
        assert!(!closed(plain).any(|other| better(&other)), "{block:?} was taken");
    });
}

#[test]
fn with_rotation_a_share_of_the_victims_was_closed_first_and_the_policy_chooses_the_others() {
    for share in [0.25, 0.75, 1.0] {
        let (mut in_turn, mut chosen) = (0, 0);
        with_rotation_against_a_plain_list(VictimPolicy::Greedy, share, |plain, block, _| {
            let it = plain[block.0 as usize].expect("a closed block");
            let is_oldest = closed(plain).map(|it| it.closed).min() == Some(it.closed);
            let is_emptiest = closed(plain).map(|it| it.valid).min() == Some(it.valid);
            assert!(is_oldest || is_emptiest, "{block:?} was taken");
            in_turn += u32::from(!is_emptiest);
            chosen += u32::from(!is_oldest);
        });
        // Half of the victims are put back, and their turns with them: these are taken again.
        let found = f64::from(in_turn) / f64::from(in_turn + chosen);
        assert!((found - share).abs() < 0.05, "{share}: {found}");
    }
}

#[test]
fn what_was_taken_in_its_turn_and_put_back_is_taken_again() {
    let queue = || VictimQueue::new(VictimPolicy::Greedy, 1, 8, 8).with_rotation(0.5, 8);
    let mut queue = queue();
    for block in [5, 2, 7, 1] {
        queue.insert(BlockIndex(block), if block == 7 { 1 } else { 8 });
    }
    let valid = |block: BlockIndex| if block.0 == 7 { 1 } else { 8 };
    assert_eq!(queue.take(valid), Some(BlockIndex(7)), "greedy's turn");
    queue.put_back(BlockIndex(7), 1);
    assert_eq!(queue.take(valid), Some(BlockIndex(7)), "and again");
    assert_eq!(queue.take(valid), Some(BlockIndex(5)), "the oldest");
    queue.put_back(BlockIndex(5), 8);
    assert_eq!(queue.take(valid), Some(BlockIndex(5)));
    queue.remove(BlockIndex(2));
    assert_eq!(queue.take(valid), Some(BlockIndex(1)), "greedy's, of one");
    assert_eq!(queue.take(valid), None);
}

#[test]
fn an_old_block_is_worth_more_than_a_young_one_with_a_little_more_to_gain() {
    let mut queue = VictimQueue::new(VictimPolicy::CostBenefit, 1, 3, 8);
    for block in 0..3 {
        queue.insert(BlockIndex(block), 8);
    }
    queue.invalidate_unit(BlockIndex(0), 8);
    queue.invalidate_unit(BlockIndex(0), 7);
    for valid in (6..=8).rev() {
        queue.invalidate_unit(BlockIndex(1), valid);
    }
    // Block 0 holds 6 units and is 4 changes old: 4 * 2 / 12. Block 1 holds 5 and is 1 change old: 1 * 3 / 10.
    assert_eq!(queue.take(|_| 0), Some(BlockIndex(0)));
    assert_eq!(queue.take(|_| 0), Some(BlockIndex(1)));
    assert_eq!(queue.take(|_| 0), Some(BlockIndex(2)), "a full block comes last, however old");
}

/// Returns how often each of 16 blocks, which hold 0 to 15 valid units, is taken.
fn ranks(policy: VictimPolicy, seed: u64) -> Vec<u32> {
    let mut queue = VictimQueue::new(policy, seed, 16, 16);
    let mut taken = vec![0; 16];
    for block in 0..16 {
        queue.insert(BlockIndex(block), block);
    }
    for _ in 0..160_000 {
        let block = queue.take(|block| block.0).expect("sixteen blocks are closed");
        taken[block.0 as usize] += 1;
        queue.put_back(block, block.0);
    }
    taken
}

#[test]
fn random_takes_all_alike_and_d_choices_the_best_of_its_draws() {
    for count in ranks(VictimPolicy::Random, 1) {
        // 10,000 expected with a standard deviation of 97.
        assert!((9_500..10_500).contains(&count), "{count}");
    }
    let three = Choices::new(3).expect("three is a number of choices");
    for (rank, count) in ranks(VictimPolicy::DChoices(three), 1).into_iter().enumerate() {
        let at_least = |rank: usize| ((16 - rank) as f64 / 16.0).powi(3);
        let expected = 160_000.0 * (at_least(rank) - at_least(rank + 1));
        assert!((f64::from(count) - expected).abs() < 6.0 * expected.sqrt() + 6.0, "{rank}");
    }
}

#[test]
fn the_same_seed_takes_the_same_victims() {
    assert_eq!(ranks(VictimPolicy::Random, 5), ranks(VictimPolicy::Random, 5));
    assert_ne!(ranks(VictimPolicy::Random, 5), ranks(VictimPolicy::Random, 6));
}
