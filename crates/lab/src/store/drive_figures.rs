//! Wear and temperature of real drives over time.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError};

const LAYOUT: &str = "
CREATE TABLE IF NOT EXISTS drive_figures (
    time INTEGER NOT NULL,
    drive TEXT NOT NULL,
    figures TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS drive_figures_time ON drive_figures (time);
";

/// Figures that a drive has told of itself at one time. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveFigures {
    /// Seconds since 1970.
    #[serde(skip)]
    pub time: i64,
    /// The drive: its model and the kernel's name for it.
    #[serde(skip)]
    pub drive: String,
    /// In degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Share of the rated life that is used, in percent; may exceed 100.
    pub used_percent: Option<f64>,
    /// Spare blocks that are left, in percent.
    pub spare_percent: Option<f64>,
    /// Bytes that hosts have written.
    pub written_bytes: Option<f64>,
}

impl Store {
    /// Adds figures of drives, all of them or none.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn add_drive_figures(&mut self, figures: &[DriveFigures]) -> Result<(), StoreError> {
        self.check_writable()?;
        self.run(|connection| {
            let transaction = connection.unchecked_transaction()?;
            transaction.execute_batch(LAYOUT)?;
            for one in figures {
                let text = serde_json::to_string(one).expect("it has no maps");
                transaction.execute(
                    "INSERT INTO drive_figures (time, drive, figures) VALUES (?1, ?2, ?3)",
                    (one.time, &one.drive, text),
                )?;
            }
            transaction.commit()
        })
    }

    /// Returns the figures of all drives, oldest first; a line that cannot be read is left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn drive_figures(&self) -> Result<Vec<DriveFigures>, StoreError> {
        if !self.has_table("drive_figures")? {
            return Ok(Vec::new());
        }
        self.run(|connection| {
            let query = "SELECT time, drive, figures FROM drive_figures ORDER BY time, drive";
            let mut statement = connection.prepare(query)?;
            let rows = statement.query_map((), |row| {
                let text: String = row.get(2)?;
                let figures: Option<DriveFigures> = serde_json::from_str(&text).ok();
                let (time, drive) = (row.get(0)?, row.get(1)?);
                Ok(figures.map(|figures| DriveFigures { time, drive, ..figures }))
            })?;
            rows.filter_map(Result::transpose).collect()
        })
    }

    /// Returns when figures were last added, in seconds since 1970.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn drive_figures_time(&self) -> Result<Option<i64>, StoreError> {
        if !self.has_table("drive_figures")? {
            return Ok(None);
        }
        self.run(|connection| {
            let query = "SELECT time FROM drive_figures ORDER BY time DESC LIMIT 1";
            connection.query_row(query, (), |row| row.get(0)).optional()
        })
    }
}
