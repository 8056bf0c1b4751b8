//! Making a drive as new without replacing it: format and secure erase, and how long they take.
//!
//! A format (NVMe Format NVM without erase, SES = 0) begins the map anew: four bytes for each logical
//! unit are programmed, program unit by program unit on all dies at once, and the blocks that held
//! data are collected later, when they are empty anyway. A secure erase (SES = 1, ATA Security
//! Erase) also erases every block that was written to, all dies at a time, before it is answered:
//! `blocks of a die x erase time`, seconds for most drives. The wear of that stays.
//!
//! Both wait for what is under way, as after a flush. No command is taken meanwhile.

/// Why a drive cannot be formatted or erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A mechanism whose state the model does not begin anew.
    #[error("a drive with {what} cannot be formatted or erased, only trimmed")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// It refuses whatever would change it.
    #[error("the drive has reached its end of life and is read-only")]
    ReadOnly,
}
