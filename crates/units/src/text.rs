//! Quantities in the notation of people: `16 KiB`, `4G`, `60us`, `7%`.

use crate::{ByteLength, Nanoseconds};

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct QuantityError {
    /// Text that could not be read.
    pub text: String,
    /// Description of a valid text, with an example.
    pub expected: &'static str,
}

fn wrong(text: &str, expected: &'static str) -> QuantityError {
    QuantityError { text: text.to_owned(), expected }
}

/// Length in bytes that a fraction is rounded down to, if it is no whole number of bytes.
const FRACTION: u128 = 512;

/// Reads a length: a number with a unit. `K`, `M`, `G`, `T`, `P` (also `KiB` ...) are powers of 1024, `KB`, `MB`,
/// `GB`, `TB`, `PB` powers of 1000; no unit, or `B`, means bytes. Lengths are shown with two or three decimals, such
/// as `476.84 GiB`: a length that is no whole number of bytes is rounded down to whole sectors of 512 bytes.
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
        "p" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => return Err(wrong(text, EXPECTED)),
    };
    bytes_of(number, factor).map(ByteLength::new).ok_or_else(|| wrong(text, EXPECTED))
}

/// Returns `number` times `factor` bytes; `None` if `number` is no number, if 64 bits cannot hold the result, or if
/// the result is less than a sector and no whole number of bytes.
fn bytes_of(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit());
    if !is_number || whole.len() + fraction.len() == 0 || number.ends_with('.') {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let parts = 10_u128.checked_pow(fraction.len().try_into().ok()?)?;
    let scaled = digits.checked_mul(factor.into())?;
    let bytes = match (scaled / parts, scaled.is_multiple_of(parts)) {
        (bytes, true) => bytes,
        (bytes, false) => Some(bytes / FRACTION * FRACTION).filter(|bytes| *bytes > 0)?,
    };
    bytes.try_into().ok()
}

/// Shows a length exactly, so that [`parse_length`] returns the same length: in the largest binary unit in which it
/// is a whole number of at most four digits, or in such a decimal unit, or in bytes.
pub fn exact_length(length: ByteLength) -> String {
    const UNITS: [(&str, u64); 10] = [
        ("PiB", 1 << 50),
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("PB", 1_000_000_000_000_000),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
    ];
    let bytes = length.bytes();
    let fits = |unit: u64| bytes >= unit && bytes.is_multiple_of(unit) && bytes / unit < 10_000;
    match UNITS.iter().find(|(_, unit)| fits(*unit)) {
        Some((name, unit)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// Shows a duration exactly, so that [`parse_duration`] returns the same duration: in the largest unit in which it is
/// a whole number, or has at most three decimals.
pub fn exact_duration(duration: Nanoseconds) -> String {
    let nanos = duration.nanos();
    let whole = [("d", 86_400_000_000_000), ("h", 3_600_000_000_000)];
    if let Some((name, unit)) = whole.iter().find(|(_, u)| nanos >= *u && nanos.is_multiple_of(*u))
    {
        return format!("{} {name}", nanos / unit);
    }
    let parts = [("s", 1_000_000_000_u64), ("ms", 1_000_000), ("us", 1_000)];
    match parts.iter().find(|(_, u)| nanos >= *u && nanos.is_multiple_of(u / 1_000)) {
        Some((name, unit)) => {
            let digits = format!("{}.{:03}", nanos / unit, nanos % unit / (unit / 1_000));
            format!("{} {name}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{nanos} ns"),
    }
}

/// Returns the end of an error about a name that is not in `known`: the likely names, or all names.
pub fn hint<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match &*nearest(word, known.clone()) {
        [] => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
        meant => format!("did you mean {}?", meant.join(" or ")),
    }
}

/// Largest number of words in a hint.
const NEAREST_MOST: usize = 3;

/// Returns the words of `known` that `word` most likely stands for, whatever its case: those with the fewest letters
/// inserted, left out, replaced or swapped, at most one in three; or else those that begin with `word`. Returns no
/// words if there are too many for a hint.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let slips = |known: &str| strsim::damerau_levenshtein(&word, &known.to_lowercase());
    let least = known.clone().map(slips).min().filter(|slips| slips * 3 <= letters);
    let mut meant: Vec<&str> = match least {
        Some(least) => known.filter(|known| slips(known) == least).collect(),
        None if letters >= 3 => known.filter(|it| it.to_lowercase().starts_with(&word)).collect(),
        None => Vec::new(),
    };
    meant.dedup();
    if meant.len() > NEAREST_MOST { Vec::new() } else { meant }
}

/// Reads a duration: `60us`, `3 ms`, `10s`, `1h`, `1h 30m`; `0` means none. The longest duration is that of 64 bits
/// of nanoseconds, 584 years.
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

/// Reads a switch: `on`, `off`, `true`, `false`, `yes`, `no`.
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
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_documented() {
        assert_eq!(parse_length("4096"), Ok(KIB * 4));
        assert_eq!(parse_length("16K"), Ok(KIB * 16));
        assert_eq!(parse_length("256 MiB"), Ok(MIB * 256));
        assert_eq!(parse_length("1.5G"), Ok(MIB * 1536));
        assert_eq!(parse_length("480 GB"), Ok(ByteLength::new(480_000_000_000)));
        assert_eq!(parse_length("2g"), Ok(GIB * 2));
        assert_eq!(parse_length("476.84GiB"), Ok(ByteLength::new(512_003_051_008)));
        assert_eq!(parse_length(".5K"), Ok(ByteLength::new(512)));
        assert_eq!(parse_length("512.110190592 GB"), Ok(ByteLength::new(512_110_190_592)));
        for bad in ["", "G", ".", "4.", "4 parsecs", "-1K", "1.2.3M", "99999999999T", "0.3", "1e3"]
        {
            assert!(parse_length(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn exact_text_is_short_where_it_can_be() {
        let shown = |bytes| exact_length(ByteLength::new(bytes));
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(512 << 30), "512 GiB");
        assert_eq!(shown(512_000_000_000), "512 GB");
        assert_eq!(shown(5050 << 20), "5050 MiB");
        assert_eq!(shown(512_110_190_592), "512110190592 B");
        let shown = |nanos| exact_duration(Nanoseconds::new(nanos));
        assert_eq!(shown(0), "0 ns");
        assert_eq!(shown(70_000), "70 us");
        assert_eq!(shown(1_300_000), "1.3 ms");
        assert_eq!(shown(1_234_567), "1234.567 us");
        assert_eq!(shown(864_000_000_000_000), "10 d");
        assert_eq!(shown(90_000_000_000), "90 s");
    }

    #[test]
    fn slips_of_the_keyboard_are_seen_through() {
        let known = ["fragmentation", "blocksize", "steady", "raid0", "raid1"].into_iter();
        let nearest = |word| nearest(word, known.clone());
        assert_eq!(nearest("fragmentaton"), ["fragmentation"]);
        assert_eq!(nearest("Blocksize"), ["blocksize"]);
        assert_eq!(nearest("staedy"), ["steady"]);
        assert_eq!(nearest("frag"), ["fragmentation"]);
        assert_eq!(nearest("raid6"), ["raid0", "raid1"]);
        for none in ["speed", "s", ""] {
            assert_eq!(nearest(none), [""; 0]);
        }
        assert!(hint("speed", known.clone()).starts_with("there are: fragmentation, blocksize"));
        assert_eq!(hint("steadi", known.clone()), "did you mean steady?");
    }

    proptest! {
        /// A size that is shown is read back as the same size, in both ways to show it.
        #[test]
        fn lengths_are_read_as_they_are_shown(bytes: u64, shift in 0..64u32) {
            let length = ByteLength::new(bytes >> shift);
            prop_assert_eq!(parse_length(&exact_length(length)), Ok(length));
            prop_assert_eq!(parse_length(&exact_length(length).replace(' ', "")), Ok(length));
            let rounded = parse_length(&length.to_string());
            let error = |read: ByteLength| read.bytes().abs_diff(length.bytes()) as f64;
            let is_near = |read: ByteLength| error(read) <= 0.005 * length.bytes() as f64 + 512.0;
            prop_assert!(rounded.clone().is_ok_and(is_near), "{} as {}: {:?}", bytes, length, rounded);
        }

        #[test]
        fn durations_are_read_as_they_are_shown(nanos: u64, shift in 0..64u32) {
            let duration = Nanoseconds::new(nanos >> shift);
            prop_assert_eq!(parse_duration(&exact_duration(duration)), Ok(duration));
            let rounded = parse_duration(&duration.to_string()).map(Nanoseconds::nanos);
            let is_near = |read: u64| read.abs_diff(duration.nanos()) <= duration.nanos() / 20 + 1;
            prop_assert!(rounded.clone().is_ok_and(is_near), "{}: {:?}", duration, rounded);
        }
    }

    #[test]
    fn durations_and_shares_are_read_as_documented() {
        assert_eq!(parse_duration("60us"), Ok(Nanoseconds::from_micros(60)));
        assert_eq!(parse_duration("3 ms"), Ok(Nanoseconds::from_millis(3)));
        assert_eq!(parse_duration("0"), Ok(Nanoseconds::ZERO));
        assert_eq!(parse_duration("0s"), Ok(Nanoseconds::ZERO));
        assert!(parse_duration("10").is_err());
        // More nanoseconds than 64 bits hold are an error.
        assert!(parse_duration("600y").is_err());
        assert_eq!(parse_duration("500y").map(|it| it.seconds() > 1.5e10), Ok(true));
        assert_eq!(parse_percent("7%"), Ok(0.07));
        assert!(parse_percent("7").is_err());
        assert_eq!(parse_switch("off"), Ok(false));
    }
}
