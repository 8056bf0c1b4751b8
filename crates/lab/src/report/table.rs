//! Tables of a report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Its name, such as `reads`.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with a cell per column, in the columns' order.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its name, such as `best_seconds`.
    pub name: String,
    /// The unit of its numbers; empty where there is none.
    pub unit: String,
}

/// A cell: numbers are numbers, yes and no are booleans, what was not measured is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// Not measured, or not defensible.
    Null,
    /// Yes or no.
    Boolean(bool),
    /// A whole number.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// Words.
    Text(String),
}

impl Table {
    /// Returns the index of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the number of leading columns that identify a row: the smallest number whose cells differ in
    /// all rows. A column with fractions is a measurement and ends the search. Rows that are still equal then
    /// are told apart by their order.
    pub fn key_columns(&self) -> usize {
        let is_name = |column: usize| {
            !self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))))
        };
        let most = (0..self.columns.len()).take_while(|&column| is_name(column)).count();
        let distinct = |count: usize| {
            self.rows.iter().enumerate().all(|(index, row)| {
                self.rows[..index].iter().all(|other| other.get(..count) != row.get(..count))
            })
        };
        let first = 1.min(self.columns.len());
        (first..=most).find(|&count| distinct(count)).unwrap_or(first)
    }
}

impl Cell {
    /// Returns the number in the cell; `None` if it holds none.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Integer(value) => Some(*value as f64),
            Cell::Number(value) => Some(*value),
            Cell::Null | Cell::Boolean(_) | Cell::Text(_) => None,
        }
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Cell::Boolean(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Cell::Integer(value)
    }
}

impl From<f64> for Cell {
    /// A number that is not finite becomes `Cell::Null`: JSON cannot represent it.
    fn from(value: f64) -> Self {
        if value.is_finite() { Cell::Number(value) } else { Cell::Null }
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

impl Column {
    /// Returns a column of numbers in `unit`, or of text if `unit` is empty.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Column { name: name.into(), unit: unit.into() }
    }
}
