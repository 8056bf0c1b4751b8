//! Varied key and its values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ssdlab_units::text::{parse_duration, parse_length};

/// Varied key and its values, as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Varied {
    /// Name of the key.
    pub key: String,
    /// Values, in the order given.
    pub values: Vec<String>,
}

impl Varied {
    /// Parses `KEY=v1,v2,v3`. Commas within parentheses are part of a value. If values themselves contain commas,
    /// semicolons separate them: `sizes=4K,64K;4K,1M`.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Varied, String> {
        let example = "write KEY=VALUE,VALUE,..., such as spare=7%,15%,28%";
        let (key, values) = text.split_once('=').ok_or_else(|| format!("'{text}': {example}"))?;
        let key = key.trim();
        if key.is_empty() {
            return Err(format!("'{text}' names no key: {example}"));
        }
        let separator =
            if outside_parentheses(values).any(|(_, letter)| letter == ';') { ';' } else { ',' };
        let mut parts = Vec::new();
        let mut start = 0;
        for (at, _) in outside_parentheses(values).filter(|(_, letter)| *letter == separator) {
            parts.push(&values[start..at]);
            start = at + 1;
        }
        parts.push(&values[start..]);
        let values: Vec<String> = parts.into_iter().map(|part| part.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(format!("{key} has an empty value in '{text}': {example}"));
        }
        Ok(Varied { key: key.to_owned(), values })
    }
}

/// Returns the letters outside all parentheses, each with its byte position.
fn outside_parentheses(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut depth = 0_usize;
    text.char_indices().filter(move |(_, letter)| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    })
}

/// The place of a varied key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The target as a whole.
    Target,
    /// A parameter of the protocol, as given to `--set`.
    Setting,
    /// A parameter of each simulated drive of the target, or an option of the stack.
    Drive,
}

/// A key that is varied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dimension {
    /// The key; `target` for targets.
    pub key: String,
    /// Its place.
    pub role: Role,
    /// The values, in the order given.
    pub values: Vec<String>,
}

impl Dimension {
    /// Returns the values as numbers; `None` unless all are numbers of one kind of unit.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        let readers: [fn(&str) -> Option<f64>; 5] = [
            |text| text.parse().ok(),
            |text| text.strip_suffix('%')?.trim().parse().ok(),
            |text| parse_length(text).ok().map(|length| length.bytes() as f64),
            |text| parse_duration(text).ok().map(|time| time.nanos() as f64),
            fraction,
        ];
        let read = |reader: &fn(&str) -> Option<f64>| -> Option<Vec<f64>> {
            let numbers: Option<Vec<f64>> = self.values.iter().map(|value| reader(value)).collect();
            numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite()))
        };
        readers.iter().find_map(read)
    }

    /// Returns the levels in the order of display: numbers ascending, names as given.
    pub fn order(&self) -> Vec<usize> {
        let mut levels: Vec<usize> = (0..self.values.len()).collect();
        if let Some(numbers) = self.numbers() {
            levels.sort_by(|&one, &other| numbers[one].total_cmp(&numbers[other]));
        }
        levels
    }
}

/// Parses a fraction such as `1/32`.
fn fraction(text: &str) -> Option<f64> {
    let (above, below) = text.split_once('/')?;
    Some(above.trim().parse::<f64>().ok()? / below.trim().parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Varied::parse(text).unwrap().values
    }

    #[test]
    fn commas_part_values_unless_they_belong_to_them() {
        assert_eq!(values("spare=7%, 28%"), ["7%", "28%"]);
        assert_eq!(values("sizes=4K,64K;1M"), ["4K,64K", "1M"]);
        assert_eq!(
            values("target=raid1(sim:,spare=7%;sim:),sim:"),
            ["raid1(sim:,spare=7%;sim:)", "sim:"]
        );
        assert_eq!(values("target=sim:,spare=7%;sim:"), ["sim:,spare=7%", "sim:"]);
    }

    #[test]
    fn an_empty_value_or_key_is_refused_with_an_example() {
        for text in ["spare", "spare=", "spare=7%,", "=7%", "spare=7%,,8%"] {
            let error = Varied::parse(text).unwrap_err();
            assert!(error.contains("such as spare=7%,15%,28%"), "{text}: {error}");
        }
    }

    #[test]
    fn values_of_one_unit_are_numbers_and_rise() {
        let dimension = |text: &str| {
            let Varied { key, values } = Varied::parse(text).unwrap();
            Dimension { key, role: Role::Drive, values }
        };
        assert_eq!(dimension("a=28%,7%").numbers(), Some(vec![28.0, 7.0]));
        assert_eq!(dimension("a=28%,7%").order(), [1, 0]);
        assert_eq!(dimension("a=4K,1M").numbers(), Some(vec![4096.0, 1048576.0]));
        assert_eq!(dimension("a=60us,1ms").numbers(), Some(vec![60e3, 1e6]));
        assert_eq!(dimension("a=1/32,1/4").numbers(), Some(vec![1.0 / 32.0, 0.25]));
        assert_eq!(dimension("a=greedy,fifo").numbers(), None);
        assert_eq!(dimension("a=7%,4K").numbers(), None);
        assert_eq!(dimension("a=greedy,fifo").order(), [0, 1]);
    }
}
