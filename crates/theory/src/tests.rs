//! The formulas against published and tabulated figures, against each other, and against a drive
//! that is simply played out.

mod brute_force;
mod figures;
mod properties;
