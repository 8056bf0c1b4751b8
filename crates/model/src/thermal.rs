//! Thermal throttling: a drive that has moved much data in a short time is hot, and slows down.
//!
//! Moving data heats the drive, and it cools all the time. At its sustained rate both are equal; data moved faster
//! than that heats the drive up to its limit. From there on the controller moves data at the sustained rate. The
//! temperature is kept as the time that the drive would take to cool down.

use ssdlab_nand::timing::TransferRate;

use crate::units::{ByteLength, Instant, Nanoseconds};

/// Limit and sustained rate of a drive that throttles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThermalParameters {
    /// Data that the drive moves ahead of the sustained rate, from cold until it reaches the limit.
    pub limit: ByteLength,
    /// Sustained rate.
    pub rate: TransferRate,
}

/// Temperature of a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thermal {
    rate: TransferRate,
    limit: Nanoseconds,
    /// Time to cool down completely, counted from `at`.
    heat: Nanoseconds,
    at: Instant,
}

impl Thermal {
    /// Returns the state of a cool drive.
    pub(crate) fn new(parameters: ThermalParameters) -> Thermal {
        let ThermalParameters { limit, rate } = parameters;
        Thermal { rate, limit: rate.duration(limit), heat: Nanoseconds::ZERO, at: Instant::START }
    }

    /// Cools the drive, which was turned off.
    pub(crate) fn cool_down(&mut self) {
        self.heat = Nanoseconds::ZERO;
    }

    /// Notes a command that moves `length`. Returns the time for which it occupies the controller.
    pub(crate) fn note(&mut self, now: Instant, length: ByteLength) -> Nanoseconds {
        let cooled = now.since(self.at);
        let own = self.rate.duration(length);
        self.heat = Nanoseconds::new(self.heat.nanos().saturating_sub(cooled.nanos())) + own;
        self.at = now;
        if self.heat > self.limit { own } else { Nanoseconds::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    /// Moves `count` MiB at 2,000 MB/s, or as fast as the drive allows. Returns the number of MiB that were not
    /// slowed down.
    fn full_speed(thermal: &mut Thermal, from: Instant, count: u32) -> (u32, Instant) {
        let (mut now, mut fast) = (from, 0);
        let own = TransferRate::from_mb_per_second(2_000.0).duration(MIB);
        for _ in 0..count {
            let held = thermal.note(now, MIB);
            fast += u32::from(held == Nanoseconds::ZERO);
            now += held.max(own);
        }
        (fast, now)
    }

    #[test]
    fn it_is_fast_until_it_is_hot_and_again_when_it_has_cooled_down() {
        let rate = TransferRate::from_mb_per_second(1_500.0);
        let mut thermal = Thermal::new(ThermalParameters { limit: MIB * 100, rate });
        // 100 MiB ahead at a sustained rate of three quarters: 400 MiB.
        let (fast, now) = full_speed(&mut thermal, Instant::START, 1_000);
        assert!((395..=405).contains(&fast), "{fast}");
        // Hot, the drive has the sustained rate.
        let (fast, end) = full_speed(&mut thermal, now, 1_000);
        assert!(fast <= 5, "{fast}");
        let expected = rate.duration(MIB * 1_000).nanos() as f64;
        assert!((end.since(now).nanos() as f64 / expected - 1.0).abs() < 0.01);
        // It cools at that rate, too: half of the 70 ms.
        let rested = end + Nanoseconds::new(rate.duration(MIB * 50).nanos());
        let (fast, _) = full_speed(&mut thermal, rested, 1_000);
        assert!((195..=205).contains(&fast), "{fast}");
    }
}
