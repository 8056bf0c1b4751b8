//! Which series belong into one picture: those of one family and the same units.

use crate::output::format;
use crate::report::Series;

/// Series to be drawn over the same axes.
#[derive(Clone, Debug)]
pub(crate) struct Family<'a> {
    /// What they have in common.
    pub(crate) title: String,
    /// The series, in the report's order.
    pub(crate) series: Vec<&'a Series>,
    /// What tells each of them apart.
    pub(crate) labels: Vec<String>,
}

impl Family<'_> {
    /// All families of a report; series without points belong to none.
    pub(crate) fn all(series: &[Series]) -> Vec<Family<'_>> {
        let drawn: Vec<&Series> = series.iter().filter(|series| !series.x.is_empty()).collect();
        families(&drawn).into_iter().map(Family::of).collect()
    }

    fn of(series: Vec<&Series>) -> Family<'_> {
        let names: Vec<&str> = series.iter().map(|one| &*one.name).collect();
        let (common, own, end) = split_names(&names);
        let unit_y = &*series[0].unit_y;
        let title = match end {
            "" => format::heading(common, unit_y),
            end => format!("{}, {}", format::heading(common, ""), format::label(end, unit_y)),
        };
        let labels = own.iter().map(|name| format::heading(name, unit_y)).collect();
        Family { title, series, labels }
    }
}

/// Series that share their units and the first word of their name, in order.
fn families<'a>(series: &[&'a Series]) -> Vec<Vec<&'a Series>> {
    let mut families: Vec<Vec<&Series>> = Vec::new();
    let first_word = |series: &'a Series| series.name.split('_').next();
    for &one in series {
        let fits = |other: &Series| other.unit_x == one.unit_x && other.unit_y == one.unit_y;
        let family = families
            .iter_mut()
            .find(|family| fits(family[0]) && first_word(family[0]) == first_word(one));
        match family {
            Some(family) => family.push(one),
            None => families.push(vec![one]),
        }
    }
    families
}

/// Returns what the names of a family begin with, what tells each apart, and what they end with.
fn split_names<'a>(names: &[&'a str]) -> (&'a str, Vec<&'a str>, &'a str) {
    let first = names[0];
    if names.len() == 1 {
        return (first, vec![first], "");
    }
    let fits_start = |start: &&str| {
        names.iter().all(|name| name.len() > start.len() && name.starts_with(*start))
    };
    let gaps = || first.char_indices().filter(|(_, letter)| *letter == '_');
    let starts = gaps().map(|(index, _)| &first[..=index]);
    let Some(start) = starts.take_while(fits_start).last() else {
        return (first, names.to_vec(), "");
    };
    // What is left in between has to tell them apart.
    let fits_end = |end: &&str| {
        names.iter().all(|name| name.len() > start.len() + end.len() && name.ends_with(*end))
    };
    let end = gaps().map(|(index, _)| &first[index..]).find(fits_end).unwrap_or("");
    let own = names.iter().map(|name| &name[start.len()..name.len() - end.len()]).collect();
    (start.trim_end_matches('_'), own, end.trim_start_matches('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_where_they_begin_and_cease_to_differ() {
        let names = ["read_throughput_fill_1", "read_throughput_50_mib_2"];
        let (common, own, end) = split_names(&names);
        assert_eq!((common, end), ("read_throughput", ""));
        assert_eq!(own, ["fill_1", "50_mib_2"]);
        let names = ["throughput_4k_first_minute", "throughput_16k_first_minute"];
        assert_eq!(split_names(&names), ("throughput", vec!["4k", "16k"], "first_minute"));
        assert_eq!(split_names(&["alone_here"]).0, "alone_here");
        assert_eq!(split_names(&["a_b", "a"]).1, ["a_b", "a"]);
    }
}
