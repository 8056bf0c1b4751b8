//! Closed forms of write amplification in steady state. The model is checked against them, and a report compares a
//! drive with them.
//!
//! One policy or workload is one module. All of them describe the same drive: full, written one
//! unit at a time at uniformly random places (unless the module says otherwise), with so many
//! blocks that chance averages out. With `alpha` for [`SpareFactor::alpha`], `rho = 1 / alpha`,
//! `b` for [`UnitsPerBlock`] and `A` for write amplification (flash programs per host write, a
//! plain `f64` of at least 1):
//!
//! | module | victim | `A` |
//! | --- | --- | --- |
//! | [`random`] | any block | `1 / (1 - rho)` |
//! | [`fifo`] | the block written longest ago (also LRU) | `alpha / (alpha + W(-alpha e^-alpha))` |
//! | [`greedy`] | the block with the fewest valid units | closed form in `b` and one integer |
//! | [`d_choices`] | the best of `d` random blocks | fixed point |
//! | [`hot_cold`] | FIFO, or any per stream | one equation; a best split of the spare |
//! | [`trim`] | any | the spare that trimming adds |
//!
//! Not here: timing, wear levelling, requests of more than one unit, and drives of so few blocks that the choice of
//! victim is a matter of luck (below a few hundred). `docs/THEORY.md` has the same on one page, with the derivations.
//!
//! ```
//! use ssdlab_theory::{SpareFactor, UnitsPerBlock, fifo, greedy, random};
//!
//! let spare = SpareFactor::from_spare_of_logical(0.07)?;
//! let greedy = greedy::write_amplification(spare, UnitsPerBlock::new(128)?);
//! let fifo = fifo::write_amplification(spare);
//! let random = random::write_amplification(spare);
//! assert!(greedy < fifo && fifo < random);
//! # Ok::<(), ssdlab_theory::ParameterError>(())
//! ```

mod parameters;
mod roots;
mod steady_state;
#[cfg(test)]
mod tests;

pub mod d_choices;
pub mod fifo;
pub mod greedy;
pub mod hot_cold;
pub mod random;
pub mod trim;

pub use parameters::{Choices, ParameterError, SpareFactor, UnitsPerBlock};
pub use steady_state::SteadyState;
