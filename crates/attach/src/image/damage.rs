//! Damage that is found in an image: what is not as it was written although it was durable.

/// Damage, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// What was found, a sentence each. Reads of what is lost fail.
    pub found: Vec<String>,
    /// What keeps the drive from being written to, a sentence each: nobody knows which units are lost.
    pub refused: Vec<String>,
}

impl Damage {
    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: &Damage) {
        self.found.extend_from_slice(&other.found);
        self.refused.extend_from_slice(&other.refused);
    }

    /// All of it.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.refused.iter().chain(&self.found)
    }
}
