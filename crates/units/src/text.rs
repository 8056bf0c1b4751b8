//! Quantities as people write them: `16 KiB`, `4G`, `60us`, `7%`.

use crate::{ByteLength, Nanoseconds};

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct QuantityError {
    /// What was written.
    pub text: String,
    /// What was expected, with an example.
    pub expected: &'static str,
}

fn wrong(text: &str, expected: &'static str) -> QuantityError {
    QuantityError { text: text.to_owned(), expected }
}

/// Reads a length: a number with a unit. `K`, `M`, `G`, `T` (also `KiB` ...) are powers of 1024,
/// `KB`, `MB`, `GB`, `TB` powers of 1000; no unit, or `B`, means bytes.
pub fn parse_length(text: &str) -> Result<ByteLength, QuantityError> {
    const EXPECTED: &str = "a size, such as 4096, 16K, 256 MiB or 480 GB";
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong(text, EXPECTED)),
    };
    let bytes = if let Ok(whole) = number.parse::<u64>() {
        whole.checked_mul(factor)
    } else {
        let fraction: f64 = number.parse().map_err(|_| wrong(text, EXPECTED))?;
        let bytes = fraction * factor as f64;
        (bytes.fract() == 0.0 && bytes < 9e18).then_some(bytes as u64)
    };
    bytes.map(ByteLength::new).ok_or_else(|| wrong(text, EXPECTED))
}

/// Reads a duration: `60us`, `3 ms`, `10s`, `1h`, `1h 30m`; `0` means none. It is at most as long as
/// 64 bits count nanoseconds, 584 years.
pub fn parse_duration(text: &str) -> Result<Nanoseconds, QuantityError> {
    const EXPECTED: &str = "a duration, such as 60us, 3ms, 10s or 1h";
    const TOO_LONG: &str = "a duration of less than 584 years";
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Nanoseconds::ZERO);
    }
    let duration = humantime::parse_duration(trimmed).map_err(|_| wrong(text, EXPECTED))?;
    let nanos = u64::try_from(duration.as_nanos()).map_err(|_| wrong(text, TOO_LONG))?;
    Ok(Nanoseconds::new(nanos))
}

/// Reads a share in percent, such as `7%` or `27.24%`, as a number between 0 and 1.
pub fn parse_percent(text: &str) -> Result<f64, QuantityError> {
    const EXPECTED: &str = "a share in percent, such as 7% or 27.24%";
    let number = text.trim().strip_suffix('%').ok_or_else(|| wrong(text, EXPECTED))?;
    match number.trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() => Ok(percent / 100.0),
        _ => Err(wrong(text, EXPECTED)),
    }
}

/// Reads yes or no: `on`, `off`, `true`, `false`, `yes`, `no`.
pub fn parse_switch(text: &str) -> Result<bool, QuantityError> {
    match text.trim() {
        "on" | "true" | "yes" => Ok(true),
        "off" | "false" | "no" => Ok(false),
        _ => Err(wrong(text, "on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GIB, KIB, MIB};

    #[test]
    fn sizes_are_read_as_documented() {
        assert_eq!(parse_length("4096"), Ok(KIB * 4));
        assert_eq!(parse_length("16K"), Ok(KIB * 16));
        assert_eq!(parse_length("256 MiB"), Ok(MIB * 256));
        assert_eq!(parse_length("1.5G"), Ok(MIB * 1536));
        assert_eq!(parse_length("480 GB"), Ok(ByteLength::new(480_000_000_000)));
        assert_eq!(parse_length("2g"), Ok(GIB * 2));
        for bad in ["", "G", "4 parsecs", "-1K", "1.2.3M", "99999999999T", "0.3"] {
            assert!(parse_length(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_and_shares_are_read_as_documented() {
        assert_eq!(parse_duration("60us"), Ok(Nanoseconds::from_micros(60)));
        assert_eq!(parse_duration("3 ms"), Ok(Nanoseconds::from_millis(3)));
        assert_eq!(parse_duration("0"), Ok(Nanoseconds::ZERO));
        assert_eq!(parse_duration("0s"), Ok(Nanoseconds::ZERO));
        assert!(parse_duration("10").is_err());
        // More nanoseconds than are counted: not some of them.
        assert!(parse_duration("600y").is_err());
        assert_eq!(parse_duration("500y").map(|it| it.seconds() > 1.5e10), Ok(true));
        assert_eq!(parse_percent("7%"), Ok(0.07));
        assert!(parse_percent("7").is_err());
        assert_eq!(parse_switch("off"), Ok(false));
    }
}
