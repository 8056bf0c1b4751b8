//! History of wear and temperature of real drives.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError};

const SCHEMA_SQL: &str = "
CREATE TABLE IF NOT EXISTS drive_figures (
    time INTEGER NOT NULL,
    drive TEXT NOT NULL,
    figures TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS drive_figures_time ON drive_figures (time);
";

/// SMART figures of a drive at one time. `None` if the drive does not report a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveFigures {
    /// Seconds since 1970.
    #[serde(skip)]
    pub time: i64,
    /// The drive: its model and the kernel's name for it.
    #[serde(skip)]
    pub drive: String,
    /// Temperature in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Share of the rated life that is used, in percent; may exceed 100.
    pub used_percent: Option<f64>,
    /// Spare blocks that are left, in percent.
    pub spare_percent: Option<f64>,
    /// Bytes that hosts have written.
    pub written_bytes: Option<f64>,
}

impl Store {
    /// Adds figures of drives in one transaction.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn add_drive_figures(&mut self, figures: &[DriveFigures]) -> Result<(), StoreError> {
        self.check_writable()?;
        self.run(|connection| {
            let transaction = connection.unchecked_transaction()?;
            transaction.execute_batch(SCHEMA_SQL)?;
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

    /// Returns the figures of all drives, oldest first. Rows that cannot be parsed are left out.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
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

    /// Returns the time of the newest figures, in seconds since 1970; `None` if there are none.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
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
