//! Lenient parsing of JSON whose names and types have changed over the years: a field that does not fit
//! counts as missing, and the other fields are still read.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

/// A field of one type; `None` if missing or of another type.
#[derive(Clone, Debug)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Lenient<T> {
        Lenient(None)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Lenient<T>, D::Error> {
        Ok(Lenient(serde_json::from_value(Value::deserialize(from)?).ok()))
    }
}

impl<T: Clone> Lenient<T> {
    pub(super) fn get(&self) -> Option<T> {
        self.0.clone()
    }
}

/// Reads an object by the names of its fields; `None` for anything else. Serde alone would also accept a
/// list as the values of the fields in their declared order.
pub(super) fn object<T: DeserializeOwned>(value: Value) -> Option<T> {
    value.is_object().then(|| serde_json::from_value(value).ok()).flatten()
}

/// An object with its own fields; empty if the value is not an object.
#[derive(Clone, Debug, Default)]
pub(super) struct LenientObject<T>(T);

impl<'de, T: DeserializeOwned + Default> Deserialize<'de> for LenientObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LenientObject<T>, D::Error> {
        Ok(LenientObject(object(Value::deserialize(from)?).unwrap_or_default()))
    }
}

impl<T> std::ops::Deref for LenientObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A list of objects, without those that do not fit.
#[derive(Clone, Debug)]
pub(super) struct LenientList<T>(Vec<T>);

impl<T> Default for LenientList<T> {
    fn default() -> LenientList<T> {
        LenientList(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for LenientList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LenientList<T>, D::Error> {
        let rows = match Value::deserialize(from)? {
            Value::Array(rows) => rows,
            _ => Vec::new(),
        };
        Ok(LenientList(rows.into_iter().filter_map(object).collect()))
    }
}

impl<T> std::ops::Deref for LenientList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A whole number, also if printed as text, with commas, a decimal point or a unit behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        Ok(Number(number(&Value::deserialize(from)?)))
    }
}

/// A decimal number, also if printed as text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decimal(pub(super) Option<f64>);

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Decimal, D::Error> {
        let value = Value::deserialize(from)?;
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
        Ok(Decimal(number.filter(|number: &f64| *number >= 0.0 && number.is_finite())))
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => {
            let text = text.trim();
            let end = text.find(|letter: char| !letter.is_ascii_digit() && !",.".contains(letter));
            let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
            let digits = digits.replace(',', "");
            // '41 Celsius', '100%', but neither '0x12' nor '12abc'.
            let is_unit = unit.is_empty() || unit.starts_with([' ', '%']);
            let number = digits.parse().ok().or_else(|| whole(digits.parse().ok()?));
            number.filter(|_| is_unit)
        }
        _ => None,
    }
}

fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number.is_finite()).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_however_they_were_printed() {
        for (printed, read) in [
            (json!(7), Some(7)),
            (json!(7.9), Some(7)),
            (json!("7"), Some(7)),
            (json!(" 512,110,190,592 "), Some(512_110_190_592)),
            (json!("22011.528"), Some(22_011)),
            (json!("41 Celsius"), Some(41)),
            (json!("100%"), Some(100)),
            (json!(u64::MAX.to_string()), Some(u64::MAX)),
            (json!(-1), None),
            (json!("-1"), None),
            (json!("0x12"), None),
            (json!("12abc"), None),
            (json!(""), None),
            (json!("..."), None),
            (json!(null), None),
            (json!([7]), None),
            (json!({"value": 7}), None),
        ] {
            assert_eq!(number(&printed), read, "{printed}");
        }
    }

    #[derive(serde::Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Both {
        word: Lenient<String>,
        rows: LenientList<Row>,
        part: LenientObject<Row>,
    }

    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Row {
        id: Number,
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_the_rest_is_read() {
        let read = |value: Value| serde_json::from_value::<Both>(value).unwrap();
        let both = read(json!({"word": 5, "rows": [{"id": "3"}, 7, null, {}], "part": []}));
        assert_eq!(both.word.get(), None);
        let ids: Vec<_> = both.rows.iter().map(|row| row.id.0).collect();
        assert_eq!(ids, [Some(3), None]);
        assert_eq!(both.part.id.0, None);
        let both = read(json!({"word": "x", "rows": {"id": 3}, "part": {"id": 4}}));
        assert_eq!((both.word.get().as_deref(), both.rows.len()), (Some("x"), 0));
        assert_eq!(both.part.id.0, Some(4));
    }

    #[test]
    fn a_list_is_not_read_as_the_fields_of_an_object_in_their_order() {
        let both: Both =
            serde_json::from_value(json!({"part": [4], "rows": [[5], {"id": 6}]})).unwrap();
        assert_eq!(both.part.id.0, None);
        let ids: Vec<_> = both.rows.iter().map(|row| row.id.0).collect();
        assert_eq!(ids, [Some(6)]);
    }
}
