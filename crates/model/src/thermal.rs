//! Thermal throttling: a drive that has moved much in a short time is hot, and slows down.
//!
//! What a drive moves heats it, and it cools all the while. At the rate that it sustains, both are equal; what it moves
//! faster than that heats it up, until it is as hot as it may be. From there on its controller passes data on at the rate that it sustains.
//! The temperature is kept as the time that the drive would take to cool down.

use ssdlab_nand::timing::TransferRate;

use crate::units::{ByteLength, Instant, Nanoseconds};

/// The limit and the rate of a drive that throttles by heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThermalParameters {
    /// How much it moves ahead of the rate that it sustains, from cold until it is as hot as it may be.
    pub limit: ByteLength,
    /// The rate that it sustains.
    pub rate: TransferRate,
}

/// How hot a drive is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thermal {
    rate: TransferRate,
    limit: Nanoseconds,
    /// How long it would take to cool down, at the instant.
    heat: Nanoseconds,
    at: Instant,
}

impl Thermal {
    /// Returns a drive that is cool.
    pub(crate) fn new(parameters: ThermalParameters) -> Thermal {
        let ThermalParameters { limit, rate } = parameters;
        Thermal { rate, limit: rate.duration(limit), heat: Nanoseconds::ZERO, at: Instant::START }
    }

    /// The drive was turned off and is cool.
    pub(crate) fn cool_down(&mut self) {
        self.heat = Nanoseconds::ZERO;
    }

    /// Notes that a command that moves `length` is acted on; returns for how long the controller is kept with it.
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

    /// Moves MiBs at 2,000 MB/s, or as fast as the drive lets it; returns how many of them were not slowed down.
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
        // 100 MiB ahead of three quarters of what is moved: 400.
        let (fast, now) = full_speed(&mut thermal, Instant::START, 1_000);
        assert!((395..=405).contains(&fast), "{fast}");
        // Hot, it has the rate that it sustains.
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
