//! Queries of the run store: runs by experiment, drive, tag or words, in pages.

use rusqlite::Row;

use super::{Annotation, RunId, RunSummary, Store, StoreError};

/// Conditions of a query; by default it selects all runs. A condition that is `None` always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Name of the experiment.
    pub experiment: Option<String>,
    /// Target, as the user named it.
    pub target: Option<String>,
    /// Tag of the run.
    pub tag: Option<String>,
    /// Text that the target, the experiment, a tag or the note contains; case is ignored.
    pub words: Option<String>,
    /// Number of the newest runs to skip.
    pub skip: u32,
    /// Maximum number of runs.
    pub most: Option<u32>,
}

/// Returns the SQL condition for a query. A parameter that is NULL is ignored.
fn conditions(is_annotated: bool) -> String {
    let (tag, words) = match is_annotated {
        true => (
            "id IN (SELECT run FROM tags WHERE tag = ?3)",
            " OR id IN (SELECT run FROM tags WHERE instr(lower(tag), ?4))
              OR id IN (SELECT run FROM notes WHERE instr(lower(note), ?4))",
        ),
        false => ("0", ""),
    };
    format!(
        "(?1 IS NULL OR experiment = ?1) AND (?2 IS NULL OR target = ?2) AND (?3 IS NULL OR {tag})
         AND (?4 IS NULL OR instr(lower(target), ?4) OR instr(lower(experiment), ?4){words})"
    )
}

impl Selection {
    /// Returns the parameters of [`conditions`].
    fn parameters(&self) -> [Option<String>; 4] {
        let words = self.words.as_deref().map(str::trim).filter(|words| !words.is_empty());
        let lower = words.map(str::to_ascii_lowercase);
        [self.experiment.clone(), self.target.clone(), self.tag.clone(), lower]
    }
}

impl Store {
    /// Returns the runs of a selection, newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn select(&self, selection: &Selection) -> Result<Vec<RunSummary>, StoreError> {
        let is_annotated = self.has_table("tags")?;
        let [experiment, target, tag, words] = selection.parameters();
        let most = selection.most.map_or(-1, i64::from);
        let mut runs: Vec<RunSummary> = self.run(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT id, started, experiment, target, seed, shortened, interrupted,
                        CASE WHEN json_valid(report)
                             THEN json_extract(report, '$.findings[0].text') END
                 FROM (SELECT * FROM runs WHERE {} ORDER BY id DESC LIMIT ?5 OFFSET ?6)
                 ORDER BY id DESC",
                conditions(is_annotated)
            ))?;
            let parameters = (experiment, target, tag, words, most, selection.skip);
            statement.query_map(parameters, summary)?.collect()
        })?;
        if is_annotated {
            for run in &mut runs {
                run.annotation = self.annotation(run.id)?;
            }
        }
        Ok(runs)
    }

    /// Returns the number of runs that meet the conditions, without `skip` and `most`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn count(&self, selection: &Selection) -> Result<u64, StoreError> {
        let conditions = conditions(self.has_table("tags")?);
        self.run(|connection| {
            let query = format!("SELECT count(*) FROM runs WHERE {conditions}");
            let count = |row: &Row<'_>| row.get::<_, i64>(0);
            Ok(connection.query_row(&query, selection.parameters(), count)?.cast_unsigned())
        })
    }

    /// Returns all pairs of an experiment and a target that there are runs of, sorted.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn subjects(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.run(|connection| {
            let query = "SELECT DISTINCT experiment, target FROM runs ORDER BY experiment, target";
            let mut statement = connection.prepare(query)?;
            statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }
}

fn summary(row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    Ok(RunSummary {
        id: RunId(row.get(0)?),
        started: row.get(1)?,
        experiment: row.get(2)?,
        target: row.get(3)?,
        seed: row.get::<_, i64>(4)?.cast_unsigned(),
        shortened: row.get(5)?,
        interrupted: row.get(6)?,
        headline: row.get(7)?,
        annotation: Annotation::default(),
    })
}
