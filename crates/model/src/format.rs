//! Format and secure erase, and the time that they take.
//!
//! A format (NVMe Format NVM without erase, SES = 0) resets the map: four bytes for each logical unit are programmed,
//! in program units on all dies at the same time. The blocks that held data are collected later, when all their units
//! are invalid anyway. A secure erase (SES = 1, ATA Security Erase) also erases every block that was written to, on
//! all dies at a time, before it is answered: `blocks of a die x erase time`, seconds for most drives. The wear of
//! these erases remains.
//!
//! Both wait for the operations under way, as a flush does. No command is fetched meanwhile.

/// Reason why a drive cannot be formatted or erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A mechanism whose state the model cannot reset.
    #[error("a drive with {what} cannot be formatted or erased, only trimmed")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// The drive is read-only and refuses any change.
    #[error("the drive has reached its end of life and is read-only")]
    ReadOnly,
}
