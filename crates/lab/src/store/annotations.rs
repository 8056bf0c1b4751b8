//! Tags and notes of runs, and removing runs.

use std::fmt;

use rusqlite::{Connection, Transaction};
use serde::Serialize;

use super::{RunId, Store, StoreError};

const SCHEMA_SQL: &str = "
CREATE TABLE IF NOT EXISTS tags (
    run INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (run, tag)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    run INTEGER PRIMARY KEY,
    note TEXT NOT NULL
) STRICT;
";

/// Maximum number of characters in a tag.
const MAX_TAG_LENGTH: usize = 40;
/// Maximum number of tags of a run.
const MAX_TAGS: usize = 20;
/// Maximum number of characters in a note.
const MAX_NOTE_LENGTH: usize = 4_000;

/// Tags and a note that a user gave to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotation {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

/// Reasons why tags or a note cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotationError {
    /// A tag is too long.
    #[error("the tag {tag:?} has more than {MAX_TAG_LENGTH} characters")]
    LongTag {
        /// The tag.
        tag: String,
    },
    /// There are too many tags.
    #[error("a run has {MAX_TAGS} tags at most, and {given} were given")]
    ManyTags {
        /// Number of tags.
        given: usize,
    },
    /// The note is too long.
    #[error("a note has {MAX_NOTE_LENGTH} characters at most, and this one has {given}")]
    LongNote {
        /// Number of characters.
        given: usize,
    },
}

impl Annotation {
    /// Returns the annotation with the tags of `tags`, a comma-separated list, and `note`. Tags are sorted
    /// and deduplicated; control characters in tags become spaces.
    ///
    /// # Errors
    /// Returns an error if there are too many tags, or a tag or the note is too long.
    pub fn new(tags: &str, note: &str) -> Result<Annotation, AnnotationError> {
        let plain = |text: &str| text.replace(char::is_control, " ");
        let tags = tags.split(',').map(|tag| plain(tag).trim().to_owned());
        let mut tags: Vec<String> = tags.filter(|tag| !tag.is_empty()).collect();
        tags.sort();
        tags.dedup();
        let is_long = |tag: &&String| tag.chars().count() > MAX_TAG_LENGTH;
        if let Some(tag) = tags.iter().find(is_long) {
            return Err(AnnotationError::LongTag { tag: tag.clone() });
        }
        if tags.len() > MAX_TAGS {
            return Err(AnnotationError::ManyTags { given: tags.len() });
        }
        let note = note.replace("\r\n", "\n");
        let note = note.trim().to_owned();
        match note.chars().count() {
            given if given > MAX_NOTE_LENGTH => Err(AnnotationError::LongNote { given }),
            _ => Ok(Annotation { tags, note }),
        }
    }

    /// Returns the tags, in order.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns the note; empty if there is none.
    pub fn note(&self) -> &str {
        &self.note
    }
}

impl fmt::Display for Annotation {
    /// Writes the tags as [`Annotation::new`] reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tags.join(", "))
    }
}

impl Store {
    /// Replaces the tags and the note of a run.
    ///
    /// # Errors
    /// Returns an error if there is no such run, or the store cannot be written.
    pub fn annotate(&mut self, id: RunId, annotation: &Annotation) -> Result<(), StoreError> {
        self.change(id, |transaction| {
            transaction.execute_batch(SCHEMA_SQL)?;
            forget(transaction, id)?;
            for tag in &annotation.tags {
                transaction.execute("INSERT INTO tags (run, tag) VALUES (?1, ?2)", (id.0, tag))?;
            }
            if !annotation.note.is_empty() {
                let insert = "INSERT INTO notes (run, note) VALUES (?1, ?2)";
                transaction.execute(insert, (id.0, &annotation.note))?;
            }
            Ok(())
        })
    }

    /// Removes a run with its tags and its note. Its number is not reused.
    ///
    /// # Errors
    /// Returns an error if there is no such run, or the store cannot be written.
    pub fn remove(&mut self, id: RunId) -> Result<(), StoreError> {
        let is_annotated = self.has_table("tags")?;
        self.change(id, |transaction| {
            if is_annotated {
                forget(transaction, id)?;
            }
            transaction.execute("DELETE FROM runs WHERE id = ?1", [id.0]).map(|_| ())
        })
    }

    /// Applies `action` to an existing run in one transaction.
    fn change(
        &mut self,
        id: RunId,
        action: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        self.check_writable()?;
        let found = self.run(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let query = "SELECT count(*) FROM runs WHERE id = ?1";
            let found: i64 = transaction.query_row(query, [id.0], |row| row.get(0))?;
            if found > 0 {
                action(&transaction)?;
            }
            transaction.commit()?;
            Ok(found > 0)
        })?;
        if found { Ok(()) } else { Err(self.no_such_run(&id.to_string())) }
    }

    /// Returns the annotation of a run; an empty one if it has none.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn annotation(&self, id: RunId) -> Result<Annotation, StoreError> {
        match self.has_table("tags")? {
            true => self.run(|connection| read(connection, id)),
            false => Ok(Annotation::default()),
        }
    }

    /// Returns all tags of all runs, sorted.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn tags(&self) -> Result<Vec<String>, StoreError> {
        if !self.has_table("tags")? {
            return Ok(Vec::new());
        }
        self.run(|connection| {
            let mut statement = connection.prepare("SELECT DISTINCT tag FROM tags ORDER BY tag")?;
            statement.query_map((), |row| row.get(0))?.collect()
        })
    }
}

fn forget(connection: &Connection, id: RunId) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM tags WHERE run = ?1", [id.0])?;
    connection.execute("DELETE FROM notes WHERE run = ?1", [id.0]).map(|_| ())
}

fn read(connection: &Connection, id: RunId) -> rusqlite::Result<Annotation> {
    let mut tags = connection.prepare_cached("SELECT tag FROM tags WHERE run = ?1 ORDER BY tag")?;
    let mut notes = connection.prepare_cached("SELECT note FROM notes WHERE run = ?1")?;
    let tags = tags.query_map([id.0], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut notes = notes.query_map([id.0], |row| row.get(0))?;
    Ok(Annotation { tags, note: notes.next().transpose()?.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_in_order_and_each_is_there_once() {
        let annotation = Annotation::new(" warm, a\nb ,warm,, 7 % ", " one\r\ntwo ").unwrap();
        assert_eq!(annotation.tags(), ["7 %", "a b", "warm"]);
        assert_eq!(annotation.note(), "one\ntwo");
        assert_eq!(Annotation::new(&annotation.to_string(), annotation.note()), Ok(annotation));
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let long = "\u{e4}".repeat(MAX_TAG_LENGTH);
        assert!(Annotation::new(&long, "").is_ok());
        let error = Annotation::new(&format!("{long}x"), "").unwrap_err();
        assert!(matches!(error, AnnotationError::LongTag { .. }), "{error}");
        let many: Vec<String> = (0..=MAX_TAGS).map(|it| it.to_string()).collect();
        let given = MAX_TAGS + 1;
        assert_eq!(Annotation::new(&many.join(","), ""), Err(AnnotationError::ManyTags { given }));
        let given = MAX_NOTE_LENGTH + 1;
        let error = Annotation::new("", &"n".repeat(given));
        assert_eq!(error, Err(AnnotationError::LongNote { given }));
    }
}
