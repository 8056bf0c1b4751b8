//! Tests of the formulas against published and tabulated figures, against each other, and against a simple
//! simulation.

mod brute_force;
mod figures;
mod properties;
