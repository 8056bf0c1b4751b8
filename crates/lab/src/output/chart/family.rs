//! Families of series that share a chart: similar names and the same units.

use crate::output::format;
use crate::report::Series;

/// Series to be drawn over the same axes.
#[derive(Clone, Debug)]
pub(crate) struct Family<'a> {
    /// Common part of the names.
    pub(crate) title: String,
    /// Series, in the report's order.
    pub(crate) series: Vec<&'a Series>,
    /// Part of each name that differs.
    pub(crate) labels: Vec<String>,
}

impl Family<'_> {
    /// Returns all families of a report. Series without points are left out.
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

/// Groups series with the same units and the same first word of their names, in order.
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

/// Splits the names of a family into the common prefix, the differing parts, and the common suffix.
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
    // The part in between must not be empty.
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
