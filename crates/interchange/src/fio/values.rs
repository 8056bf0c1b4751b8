//! Parsers of values in fio's notation. fio's units differ from others: `4k` and `4kb` are 4096, `4kib` is 4000
//! (`kb_base=1024`, the default, has them the wrong way round), and a time without a unit has the unit of its option.

use ssdlab_units::{ByteLength, Nanoseconds};

/// Reads a size: `4096`, `4k`, `0x1000`, `1g`, `4kib` (which is 4000).
pub(super) fn size(text: &str) -> Option<ByteLength> {
    let lower = text.trim().to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        let digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)?;
        return u64::from_str_radix(digits, 16).ok().map(ByteLength::new);
    }
    let end = lower.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(end);
    let (power, base): (u32, u64) = match unit {
        "" | "b" => (0, 1),
        _ => {
            let power = "kmgtp".find(unit.get(..1)?)? as u32 + 1;
            match unit.get(1..)? {
                "" | "b" => (power, 1024),
                "i" | "ib" => (power, 1000),
                _ => return None,
            }
        }
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(base.pow(power)).map(ByteLength::new)
}

/// Reads a time; a number without a unit is in `unit`.
pub(super) fn time(text: &str, unit: Nanoseconds) -> Option<Nanoseconds> {
    let lower = text.trim().to_ascii_lowercase();
    let end = lower.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(lower.len());
    let (number, written) = lower.split_at(end);
    let unit = match written {
        "" => unit,
        "us" | "usec" => Nanoseconds::from_micros(1),
        "ms" | "msec" => Nanoseconds::from_millis(1),
        "s" | "sec" => Nanoseconds::from_secs(1),
        "m" => Nanoseconds::from_secs(60),
        "h" => Nanoseconds::from_secs(3600),
        "d" => Nanoseconds::from_secs(86_400),
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit.nanos()).map(Nanoseconds::new)
}

/// Reads a whole number, decimal or hexadecimal.
pub(super) fn number(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None if lower.bytes().all(|digit| digit.is_ascii_digit()) => lower.parse().ok(),
        None => None,
    }
}

/// Reads a share in percent, such as `50%`.
pub(super) fn percent(text: &str) -> Option<u8> {
    let number = text.trim().strip_suffix('%')?;
    number.parse::<u8>().ok().filter(|percent| *percent <= 100)
}

/// Reads a switch; it is on if it has no value.
pub(super) fn switch(text: Option<&str>) -> Option<bool> {
    match text.map(str::trim) {
        None | Some("" | "1" | "true" | "yes") => Some(true),
        Some("0" | "false" | "no") => Some(false),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_fio_takes_them_for() {
        let bytes = |text: &str| size(text).map(ByteLength::bytes);
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("4k"), Some(4096));
        assert_eq!(bytes("4KB"), Some(4096));
        // Verified with fio 3.33: --size=1m --bs=4kib is 262 requests of 4000 bytes.
        assert_eq!(bytes("4kib"), Some(4000));
        assert_eq!(bytes("1G"), Some(1 << 30));
        assert_eq!(bytes("0x1000"), Some(4096));
        for wrong in ["", "k", "4x", "-1", "4 k", "1.5g", "99999999999t", "0x+1", "4\u{e9}"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_have_the_unit_of_their_option() {
        let second = Nanoseconds::from_secs(1);
        assert_eq!(time("60", second), Some(Nanoseconds::from_secs(60)));
        assert_eq!(time("2m", second), Some(Nanoseconds::from_secs(120)));
        assert_eq!(time("5", Nanoseconds::from_micros(1)), Some(Nanoseconds::from_micros(5)));
        assert_eq!(time("soon", second), None);
        assert_eq!(time("99999999999999d", second), None);
    }
}
