//! Axes of charts: positions of values in percent, and ticks at round values.

use super::format;

/// One axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    /// Ticks, rising.
    pub(crate) ticks: Vec<Tick>,
    /// Unit of the ticks, in words.
    pub(crate) caption: String,
}

/// A tick of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    /// Position, in percent from the low end.
    pub(crate) at: f64,
    /// Label.
    pub(crate) label: String,
}

impl Axis {
    /// Returns an axis from zero (or from the least value if that is negative) to slightly above the
    /// greatest, with about `count` ticks.
    pub(crate) fn values(least: f64, greatest: f64, unit: &str, count: usize) -> Axis {
        Axis::linear([least.min(0.0), greatest], unit, count, true, 0.0)
    }

    /// Returns an axis from `least` (or from zero if that is near) to exactly `greatest`, so that a curve
    /// fills the width. If `are_counted`, only whole numbers have ticks.
    pub(crate) fn positions(
        least: f64,
        greatest: f64,
        unit: &str,
        count: usize,
        are_counted: bool,
    ) -> Axis {
        let is_near_zero = least >= 0.0 && least < 0.25 * greatest;
        let low = if is_near_zero { 0.0 } else { least };
        let step_min = if are_counted { 1.0 } else { 0.0 };
        Axis::linear([low, greatest], unit, count, false, step_min)
    }

    fn linear(
        [low, high]: [f64; 2],
        unit: &str,
        count: usize,
        has_headroom: bool,
        step_min: f64,
    ) -> Axis {
        let high = if high > low { high } else { low + 1.0 };
        let (factor, caption) = display_unit(unit, high.abs().max(low.abs()));
        let step_of =
            |count: usize| round_step((high - low) / factor / count as f64).max(step_min) * factor;
        let has_two = |step: f64| (low / step - 1e-9).ceil() < (high / step + 1e-9).floor();
        // A single tick does not show the scale.
        let step = (count..4 * count)
            .map(step_of)
            .find(|step| has_two(*step))
            .unwrap_or_else(|| step_of(count));
        // The top margin keeps curves from touching the edge. Rounding up to the next tick might waste half
        // the height.
        let high = if has_headroom { high + 0.06 * (high - low) } else { high };
        let decimals = (-(step / factor).log10().floor()).clamp(0.0, 6.0) as usize;
        let mut axis = Axis { low, high, is_log: false, ticks: Vec::new(), caption };
        let first = (low / step - 1e-9).ceil();
        let last = (high / step + 1e-9).floor();
        axis.ticks = (0..=(last - first) as usize)
            .map(|index| (first + index as f64) * step)
            .map(|value| Tick {
                at: axis.place(value),
                label: format::fixed(value / factor, decimals),
            })
            .collect();
        axis
    }

    /// Returns a logarithmic axis of microseconds with a tick at every power of ten, and more ticks (first at
    /// 2 and 5 times it) if there would be fewer than three.
    pub(crate) fn latency(least: f64, greatest: f64) -> Axis {
        let low = least.max(1e-3);
        let high = greatest.max(low * 1.5);
        let mut axis =
            Axis { low, high, is_log: true, ticks: Vec::new(), caption: "latency".to_owned() };
        for factors in [&[1.0][..], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]] {
            let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
            axis.ticks = decades
                .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)))
                .filter(|value| (low..=high).contains(value))
                .map(|value| Tick { at: axis.place(value), label: latency_label(value) })
                .collect();
            if axis.ticks.len() > 2 {
                break;
            }
        }
        axis
    }

    /// Returns an axis from the first to the last of some rising values, with a tick at each of them;
    /// logarithmic if `is_log`.
    pub(crate) fn marked(marks: &[(f64, String)], is_log: bool) -> Axis {
        let ends = marks.first().zip(marks.last());
        let (low, high) = ends.map_or((0.0, 1.0), |(first, last)| (first.0, last.0));
        let high = if high > low { high } else { low + 1.0 };
        let mut axis = Axis { low, high, is_log, ticks: Vec::new(), caption: String::new() };
        axis.ticks = marks
            .iter()
            .map(|(value, label)| Tick { at: axis.place(*value), label: label.clone() })
            .collect();
        axis
    }

    /// Returns an axis of named steps, evenly spaced.
    pub(crate) fn steps(names: &[String], caption: &str) -> Axis {
        let high = names.len().saturating_sub(1).max(1) as f64;
        let ticks = names
            .iter()
            .enumerate()
            .map(|(index, name)| Tick { at: 100.0 * index as f64 / high, label: name.clone() });
        Axis { low: 0.0, high, is_log: false, ticks: ticks.collect(), caption: caption.to_owned() }
    }

    /// Returns the number of powers of ten that a logarithmic axis spans.
    pub(crate) fn decades(&self) -> f64 {
        (self.high / self.low).log10()
    }

    /// Returns the position of a value, in percent from the low end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(1e-3) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        (share * 100.0).clamp(0.0, 100.0)
    }
}

/// Returns the smallest of 1, 2 or 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digit =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= step * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

/// Returns the unit for an axis as a factor of the given unit, and its name.
fn display_unit(unit: &str, greatest: f64) -> (f64, String) {
    let (factor, name) = match unit {
        "B" if greatest >= (1u64 << 40) as f64 => ((1u64 << 40) as f64, "TiB"),
        "B" if greatest >= 4.0 * (1u64 << 30) as f64 => ((1u64 << 30) as f64, "GiB"),
        "B" if greatest >= (1u64 << 20) as f64 => ((1u64 << 20) as f64, "MiB"),
        "B" if greatest >= (1u64 << 10) as f64 => ((1u64 << 10) as f64, "KiB"),
        "B" => (1.0, "bytes"),
        "s" if greatest > 10_800.0 => (3_600.0, "hours"),
        "s" if greatest > 600.0 => (60.0, "minutes"),
        "s" => (1.0, "seconds"),
        "min" => (1.0, "minutes"),
        "us" if greatest >= 10_000.0 => (1_000.0, "ms"),
        "us" => (1.0, "\u{b5}s"),
        "x" => (1.0, "times"),
        other => (1.0, other),
    };
    (factor, name.to_owned())
}

/// Formats a round latency: 10 us, 1 ms.
fn latency_label(us: f64) -> String {
    let (value, unit) = match us {
        _ if us >= 0.999e6 => (us / 1e6, "s"),
        _ if us >= 0.999e3 => (us / 1e3, "ms"),
        _ => (us, "\u{b5}s"),
    };
    // Ticks are round values, so a few digits are exact.
    let rounded = (value * 1000.0).round() / 1000.0;
    format!("{rounded} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::values(3.0, 2263.0, "MB/s", 4);
        assert_eq!(labels(&axis), ["0", "1000", "2000"]);
        let axis = Axis::values(0.0, 0.42, "x", 4);
        assert_eq!(labels(&axis), ["0.0", "0.2", "0.4"]);
    }

    #[test]
    fn positions_end_where_the_curve_ends_and_long_times_change_unit() {
        let axis = Axis::positions(60.0, 14_400.0, "s", 5, false);
        assert_eq!(labels(&axis), ["0", "1", "2", "3", "4"]);
        assert_eq!(axis.caption, "hours");
        assert_eq!(axis.place(14_400.0), 100.0);
    }

    #[test]
    fn a_latency_axis_always_has_marks() {
        let wide = Axis::latency(12.0, 95_000.0);
        assert_eq!(labels(&wide), ["100 \u{b5}s", "1 ms", "10 ms"]);
        let narrow = Axis::latency(110.0, 900.0);
        assert_eq!(labels(&narrow)[0], "150 \u{b5}s");
    }

    #[test]
    fn a_single_value_still_makes_an_axis() {
        assert!(Axis::values(0.0, 0.0, "", 4).ticks.len() > 1);
        assert!(Axis::positions(5.0, 5.0, "s", 4, false).place(5.0).is_finite());
        let labels: Vec<_> = Axis::positions(1.0, 2.0, "pass", 6, true).ticks;
        let labels: Vec<_> = labels.iter().map(|tick| &*tick.label).collect();
        assert_eq!(labels, ["1", "2"], "there is no half of a pass");
    }
}
