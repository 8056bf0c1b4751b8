//! Damage that is found in an image: durable data that is not as it was written.

/// Damage, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Findings, a sentence each. Reads of lost units fail.
    pub found: Vec<String>,
    /// Damage that keeps the drive from being opened, a sentence each: it cannot be known which units are lost.
    pub refused: Vec<String>,
}

impl Damage {
    /// Adds the damage in `other`.
    pub fn add(&mut self, other: &Damage) {
        self.found.extend_from_slice(&other.found);
        self.refused.extend_from_slice(&other.refused);
    }

    /// Returns all sentences.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.refused.iter().chain(&self.found)
    }
}
