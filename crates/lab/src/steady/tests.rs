//! Tests of the rule on series with a known steady state.

use super::*;

/// Approximately normal random numbers: sums of twelve uniform ones.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            sum += (self.0 >> 11) as f64 / (1u64 << 53) as f64;
        }
        sum
    }
}

const SEEDS: u64 = 10;

/// Sixteen hours of rounds of one minute.
const LONGEST: usize = 960;

/// Adds rounds of `truth` with `noise` until the rule is met. Returns the number of rounds and the mean, and
/// the whole series.
fn run(truth: impl Fn(f64) -> f64, noise: f64, seed: u64) -> (Option<(usize, f64)>, Vec<f64>) {
    run_after(0, truth, noise, seed)
}

/// Like `run`, but at least `least` rounds have to be measured.
fn run_after(
    least: usize,
    truth: impl Fn(f64) -> f64,
    noise: f64,
    seed: u64,
) -> (Option<(usize, f64)>, Vec<f64>) {
    let mut scatter = Noise(seed.wrapping_mul(77) + 1);
    let mut rounds = Vec::new();
    for minute in 0..LONGEST {
        rounds.push(truth(minute as f64 + 0.5) * (1.0 + noise * scatter.next()));
        let missing = least.saturating_sub(rounds.len());
        if let Ok(steady) = judge(&rounds, missing) {
            return (Some((rounds.len(), steady.mean)), rounds);
        }
    }
    (None, rounds)
}

/// Returns the largest relative error of the mean in series of `truth` that are called steady, and the number
/// of those series. `right` returns the true mean for a number of rounds.
fn worst(
    truth: impl Fn(f64) -> f64,
    right: impl Fn(f64) -> f64,
    noise: f64,
    seeds: u64,
) -> (f64, u64) {
    let (mut worst, mut reached) = (0.0_f64, 0);
    for seed in 0..seeds {
        if let (Some((rounds, mean)), _) = run(&truth, noise, seed) {
            worst = worst.max((mean / right(rounds as f64) - 1.0).abs());
            reached += 1;
        }
    }
    (worst, reached)
}

fn check_decays(seeds: u64) {
    for time_constant in [5.0, 15.0, 60.0] {
        for noise in [0.0, 0.02, 0.05] {
            let truth = |minutes: f64| 1.0 + (-minutes / time_constant).exp();
            let (worst, reached) = worst(truth, |_| 1.0, noise, seeds);
            let what = format!("time constant {time_constant}, noise {noise}: {worst}");
            assert!(worst < 0.03, "{what}");
            assert!(reached > seeds * 3 / 4, "{what}, {reached} times");
        }
    }
}

/// A rise that the noise hides may be missed, but then the mean is right for the middle of the window.
/// Without noise, no rise may be missed.
fn check_rises(seeds: u64) {
    for noise in [0.0, 0.02, 0.05] {
        for per_minute in [0.0005, 0.001, 0.002, 0.005, 0.02] {
            let truth = |minutes: f64| 1.0 + minutes * per_minute;
            let (worst, reached) = worst(truth, |rounds| truth(0.75 * rounds), noise, seeds);
            let what = format!("{per_minute} a minute, noise {noise}: {worst}, {reached} times");
            assert!(worst < 0.03, "{what}");
            assert!(noise > 0.0 || reached == 0, "{what}");
        }
    }
}

#[test]
fn a_decay_is_waited_for_until_its_mean_is_right() {
    check_decays(SEEDS);
}

#[test]
fn what_rises_all_the_time_is_never_steady() {
    check_rises(SEEDS);
}

/// `cargo test -p ssdlab-lab --lib steady -- --ignored`
#[test]
#[ignore = "takes a minute"]
fn means_are_right_however_the_noise_falls() {
    check_decays(400);
    check_rises(400);
    for noise in [0.02, 0.05] {
        let (worst, reached) = worst(|_| 1.0, |_| 1.0, noise, 400);
        assert!(worst < 0.03 && reached == 400, "noise {noise}: {worst}, {reached} times");
    }
}

#[test]
fn the_rule_of_snia_stops_early_on_a_slow_decay() {
    let truth = |minutes: f64| 1.0 + (-minutes / 60.0).exp();
    let rounds: Vec<f64> = (0..100).map(|minute| truth(f64::from(minute) + 0.5)).collect();
    let (count, mean) = snia::first_met(&rounds).unwrap();
    assert_eq!(count, 5);
    assert!(mean > 1.9, "{mean}");
}

#[test]
fn a_square_wave_of_forty_rounds_is_no_steady_state_with_a_wrong_mean() {
    for noise in [0.0, 0.02, 0.05] {
        for seed in 0..SEEDS {
            let truth = |minutes: f64| if minutes % 40.0 < 20.0 { 2.0 } else { 1.0 };
            // GC makes such a wave, and runs last for two periods of it at least.
            let (stop, _) = run_after(80, truth, noise, seed);
            let deviation = stop.map_or(0.0, |(_, mean)| mean / 1.5 - 1.0);
            assert!(deviation.abs() < 0.03, "noise {noise}, seed {seed}: {stop:?}");
        }
    }
}

#[test]
fn a_cliff_is_left_behind() {
    for noise in [0.01, 0.05] {
        for seed in 0..SEEDS {
            let (stop, _) = run(|minutes| if minutes < 90.0 { 3.0 } else { 1.0 }, noise, seed);
            let Some((rounds, mean)) = stop else { panic!("noise {noise}, seed {seed}") };
            // The series may be called steady before the cliff, too: no rule can foresee a cliff.
            let level = if rounds < 90 { 3.0 } else { 1.0 };
            assert!((mean / level - 1.0).abs() < 0.03, "noise {noise}, seed {seed}: {stop:?}");
        }
    }
}

#[test]
fn a_short_swing_is_no_drift() {
    let mut reached = 0;
    for seed in 0..SEEDS {
        let truth = |minutes: f64| 1.0 + 0.1 * (minutes * std::f64::consts::TAU / 6.0).sin();
        if let (Some((_, mean)), _) = run(truth, 0.02, seed) {
            assert!((mean - 1.0).abs() < 0.03, "seed {seed}: {mean}");
            reached += 1;
        }
    }
    assert_eq!(reached, SEEDS);
}

#[test]
fn a_level_that_changes_within_the_window_is_found() {
    let mut noise = Noise(9);
    let mut rounds: Vec<f64> = (0..60).map(|_| 1.0 + 0.01 * noise.next()).collect();
    rounds.extend((0..40).map(|_| 0.93 + 0.01 * noise.next()));
    let window = &rounds[20..];
    assert_eq!(change::level(window, 0.05), Some(40));
    assert_eq!(change::level(window, 0.2), None);
}

#[test]
fn it_says_how_much_more_it_takes() {
    let truth = |minutes: f64| 1.0 + (-minutes / 60.0).exp();
    let rounds: Vec<f64> = (0..120).map(|minute| truth(f64::from(minute) + 0.5)).collect();
    let (stop, _) = run(truth, 0.0, 0);
    let (needed, _) = stop.unwrap();
    let not_steady = judge(&rounds, 0).unwrap_err();
    assert!(
        matches!(not_steady.why, UnmetCondition::Drift(drift) if drift < -0.04),
        "{not_steady:?}"
    );
    let expected = (needed - 120) as f64;
    let more = not_steady.more_rounds.unwrap() as f64;
    assert!((0.5..2.0).contains(&(more / expected)), "{more} more, not {expected}");
    let few = judge(&rounds[..5], 0).unwrap_err();
    assert_eq!((few.why, few.more_rounds), (UnmetCondition::TooFew, Some(25)));
    let rising: Vec<f64> = (0..100).map(|minute| 1.0 + f64::from(minute)).collect();
    assert_eq!(judge(&rising, 0).unwrap_err().more_rounds, None);
}

#[test]
fn enough_has_to_be_written_first() {
    let flat = [5.0; 40];
    assert!(judge(&flat, 0).is_ok());
    let not_steady = judge(&flat, 7).unwrap_err();
    assert_eq!((not_steady.why, not_steady.more_rounds), (UnmetCondition::Written, Some(7)));
}

/// Each round correlates with the one before: an autoregressive process of first order.
#[test]
fn intervals_hold_the_mean_of_rounds_that_are_alike() {
    let mut noise = Noise(5);
    for (count, alike, least) in
        [(15, 0.0, 0.93), (15, 0.3, 0.91), (15, 0.6, 0.86), (60, 0.6, 0.92), (60, 0.8, 0.9)]
    {
        const SERIES: usize = 2_000;
        let mut held = 0;
        for _ in 0..SERIES {
            let mut state = noise.next();
            let mut round = || {
                let share: f64 = alike;
                state = share * state + (1.0 - share * share).sqrt() * noise.next();
                100.0 + state
            };
            let rounds: Vec<f64> = (0..count).map(|_| round()).collect();
            let trend = Trend::of(&rounds);
            held += usize::from((trend.mean - 100.0).abs() <= trend.mean_bound);
        }
        let share = held as f64 / SERIES as f64;
        assert!((least..0.98).contains(&share), "{count} rounds, {alike}: {share}");
    }
}
