//! Texts for quantities, lists and shell arguments.

use ssdlab_units::ByteLength;

/// Returns a capacity with three digits: `465 GiB`.
pub(crate) fn capacity(length: ByteLength) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = length.bytes() as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        value if value >= 100.0 || value.fract() == 0.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// Returns a list in words: `a, b and c`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns a word quoted as an argument for a shell, if it needs quotes.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:=@%,".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Returns a time span in words, rounded down: `3 days`.
pub(crate) fn elapsed(seconds: u64) -> String {
    let (value, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    match value {
        1 => format!("1 {unit}"),
        value => format!("{value} {unit}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_said_as_people_say_them() {
        assert_eq!(capacity(ByteLength::new(500_107_862_016)), "466 GiB");
        assert_eq!(capacity(ByteLength::new(1 << 20)), "1 MiB");
        assert_eq!(capacity(ByteLength::new(0)), "0 bytes");
        assert_eq!(elapsed(86_400 * 3), "3 days");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("/mnt/ssd"), "/mnt/ssd");
    }
}
