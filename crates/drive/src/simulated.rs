//! The model as a drive, in virtual time.
