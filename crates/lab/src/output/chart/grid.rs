//! Charts of tables whose rows are steps of a size within groups: a curve over the size for each group.

use crate::output::format::{self, ColumnFormat};
use crate::report::{Cell, Column, Table};

/// Maximum number of curves in a chart.
const CURVES_MAX: usize = 8;

/// Minimum number of steps for a curve.
const STEPS_MIN: usize = 3;

/// One measurement of such a table.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// Title, such as "Throughput by request, in MB/s".
    pub(crate) title: String,
    /// Unit of the measurement.
    pub(crate) unit: String,
    /// Column of the steps.
    key: Column,
    /// Steps, rising.
    pub(crate) steps: Vec<f64>,
    /// A curve for each group.
    pub(crate) curves: Vec<GridCurve>,
}

/// Curve of one group.
#[derive(Clone, Debug)]
pub(crate) struct GridCurve {
    /// Name of the group.
    pub(crate) name: String,
    /// Value at each step.
    pub(crate) values: Vec<Option<f64>>,
}

impl GridCurve {
    /// Returns the points of the curve: step and value.
    pub(crate) fn points(&self, steps: &[f64]) -> Vec<(f64, f64)> {
        let both = steps.iter().zip(&self.values);
        both.filter_map(|(step, value)| Some((*step, (*value)?))).collect()
    }
}

impl Grid {
    /// Returns a grid for each measurement of `table`; none if its rows are not steps within groups, or if
    /// its measurements include text.
    pub(crate) fn all(table: &Table) -> Vec<Grid> {
        let keys = table.key_columns();
        let is_numeric = |index: usize| {
            table.rows.iter().all(|row| matches!(row.get(index), Some(Cell::Integer(_))))
        };
        if keys < 2 || table.rows.is_empty() || !is_numeric(keys - 1) {
            return Vec::new();
        }
        let measures = keys..table.columns.len();
        let has_words = measures.clone().any(|index| {
            table
                .rows
                .iter()
                .any(|row| matches!(row.get(index), Some(Cell::Text(_) | Cell::Boolean(_))))
        });
        if has_words {
            return Vec::new();
        }
        measures.filter_map(|measure| Grid::of(table, keys, measure)).collect()
    }

    fn of(table: &Table, keys: usize, measure: usize) -> Option<Grid> {
        let formats = ColumnFormat::of(table);
        let number = |row: &Vec<Cell>, index: usize| row.get(index).and_then(Cell::number);
        let mut steps: Vec<f64> =
            table.rows.iter().filter_map(|row| number(row, keys - 1)).collect();
        steps.sort_by(f64::total_cmp);
        steps.dedup();
        let mut curves: Vec<GridCurve> = Vec::new();
        for row in &table.rows {
            let names: Vec<String> =
                row[..keys - 1].iter().zip(&formats).map(|(cell, own)| own.name(cell)).collect();
            let name = names.join(", ");
            let step = number(row, keys - 1)?;
            let place = steps.iter().position(|other| *other == step)?;
            if curves.iter().all(|curve| curve.name != name) {
                curves.push(GridCurve { name: name.clone(), values: vec![None; steps.len()] });
            }
            let curve = curves.iter_mut().find(|curve| curve.name == name)?;
            curve.values[place] = number(row, measure);
        }
        let fits = steps.len() >= STEPS_MIN && (2..=CURVES_MAX).contains(&curves.len());
        let has_numbers = curves.iter().any(|curve| curve.points(&steps).len() > 1);
        let (key, column) = (&table.columns[keys - 1], &table.columns[measure]);
        (fits && has_numbers).then(|| Grid {
            title: format!(
                "{}: {} by {}{}",
                format::heading(&table.name, ""),
                formats[measure].label,
                format::label(&key.name, &key.unit),
                if formats[measure].label == column.unit {
                    String::new()
                } else {
                    super::in_unit(&column.unit)
                }
            ),
            unit: column.unit.clone(),
            key: key.clone(),
            steps,
            curves,
        })
    }

    /// Formats a step.
    pub(crate) fn step(&self, value: f64) -> String {
        match &*self.key.unit {
            "B" => format::bytes(value),
            unit => format!("{} {unit}", format::significant(value)).trim_end().to_owned(),
        }
    }

    /// Returns true if the steps grow by factors rather than by constant amounts.
    pub(crate) fn is_logarithmic(&self) -> bool {
        let (first, last) = (self.steps[0], self.steps[self.steps.len() - 1]);
        first > 0.0 && last / first >= 16.0
    }

    /// Returns the position of a step between the first (0) and the last one (1).
    pub(crate) fn place(&self, step: f64) -> f64 {
        let scale = |value: f64| if self.is_logarithmic() { value.log2() } else { value };
        let (first, last) = (self.steps[0], self.steps[self.steps.len() - 1]);
        (scale(step) - scale(first)) / (scale(last) - scale(first))
    }

    /// Returns the curves as a table with a row for each step and a column for each group.
    pub(crate) fn table(&self) -> Table {
        let curves = self.curves.iter().map(|curve| Column::new(&*curve.name, &*self.unit));
        let row = |(index, step): (usize, &f64)| {
            let values = self.curves.iter().map(|curve| Cell::from(curve.values[index]));
            [Cell::Integer(*step as u64)].into_iter().chain(values).collect()
        };
        Table {
            name: self.title.clone(),
            columns: [self.key.clone()].into_iter().chain(curves).collect(),
            rows: self.steps.iter().enumerate().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, u64, f64)]) -> Table {
        let rows = rows.iter().map(|(name, bytes, speed)| {
            vec![Cell::from(*name), Cell::from(*bytes), Cell::from(*speed)]
        });
        Table {
            name: "throughput".to_owned(),
            columns: vec![
                Column::new("operation", ""),
                Column::new("request_bytes", "B"),
                Column::new("mb_per_s", "MB/s"),
            ],
            rows: rows.collect(),
        }
    }

    const ROWS: [(&str, u64, f64); 5] = [
        ("seq_read", 4096, 1.0),
        ("seq_read", 65536, 2.0),
        ("seq_read", 1048576, 3.0),
        ("rand_read", 4096, 0.5),
        ("rand_read", 1048576, 2.5),
    ];

    #[test]
    fn groups_become_curves_over_all_steps() {
        let grids = Grid::all(&table(&ROWS));
        let [grid] = &grids[..] else { panic!("{grids:?}") };
        assert_eq!(grid.title, "Throughput: MB/s by request");
        assert_eq!(grid.steps, [4096.0, 65536.0, 1048576.0]);
        assert_eq!(grid.curves[1].name, "rand_read");
        assert_eq!(grid.curves[1].values, [Some(0.5), None, Some(2.5)]);
        assert_eq!(grid.place(65536.0), 0.5);
        let wide = grid.table();
        assert_eq!(wide.columns.len(), 3);
        assert_eq!(wide.rows[1], [Cell::Integer(65536), Cell::Number(2.0), Cell::Null]);
    }

    #[test]
    fn two_steps_are_no_curve() {
        assert!(Grid::all(&table(&ROWS[..2])).is_empty());
        assert!(Grid::all(&table(&ROWS[..3])).is_empty(), "one group is told by the rows");
    }
}
