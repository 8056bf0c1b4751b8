//! Closed forms for write amplification.
