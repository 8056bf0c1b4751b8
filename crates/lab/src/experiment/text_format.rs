//! Formatting of amounts and names for experiments.

use ssdlab_units::{ByteLength, Nanoseconds};

/// Returns a duration in the notation of `--set`: `1m 30s`.
pub(super) fn duration(duration: Nanoseconds) -> String {
    humantime::format_duration(duration.into()).to_string()
}

/// Returns a length in MiB, as in the columns of published tables.
pub(super) fn mib(length: ByteLength) -> String {
    let mib = length.mebibytes();
    if mib.fract() == 0.0 || mib >= 100.0 {
        format!("{mib:.0} MiB")
    } else {
        format!("{mib:.1} MiB")
    }
}

/// Returns a length in the notation of series names: `512`, `4k`, `1m`.
pub(super) fn size_code(length: ByteLength) -> String {
    let bytes = length.bytes();
    let units = [(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
    let unit = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Returns the name of a step in the notation of series names.
pub(super) fn series_code(name: &str) -> String {
    name.to_lowercase().replace([' ', '.'], "_")
}

/// Returns names separated by commas, with "and" before the last.
pub(super) fn join_names(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns a throughput with its significant digits.
pub(super) fn throughput(mb_per_second: f64) -> String {
    format!("{} MB/s", crate::output::format::significant(mb_per_second))
}

/// Returns a relative change in percent with its sign; without a sign if it rounds to zero: `+1.5 %`, `0.0
/// %`.
pub(super) fn percent_change(share: f64, decimals: usize) -> String {
    let percent = crate::output::format::fixed(share * 100.0, decimals);
    let is_zero = percent.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if share > 0.0 && !is_zero { "+" } else { "" };
    format!("{sign}{percent} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_units::KIB;

    #[test]
    fn sizes_are_named_in_the_largest_unit_that_is_exact() {
        let codes = [512, 4096, 65536, 1 << 20, 3 << 20, 1536].map(ByteLength::new).map(size_code);
        assert_eq!(codes, ["512", "4k", "64k", "1m", "3m", "1536"]);
        assert_eq!(mib(KIB * 1536), "1.5 MiB");
    }

    #[test]
    fn changes_have_a_sign_unless_they_round_to_nothing() {
        let changes = [0.0149, -0.0149, -0.0001, 0.0].map(|share| percent_change(share, 1));
        assert_eq!(changes, ["+1.5 %", "-1.5 %", "0.0 %", "0.0 %"]);
    }

    #[test]
    fn lists_end_with_and() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(join_names(&names), "a, b and c");
        assert_eq!(join_names(&names[..1]), "a");
    }
}
