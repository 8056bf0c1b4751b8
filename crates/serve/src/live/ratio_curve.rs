//! Curve of unlimited length in limited space.

use serde::{Deserialize, Serialize};

/// Largest number of pieces of a curve; above it neighbours are joined.
const MAX_PIECES: usize = 400;

/// Ratio over time: bytes by seconds, or units of flash by units of the host. Joining pieces adds both sides of the
/// ratio, so the ratio of the whole stays exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatioCurve {
    /// Length in seconds up to which a new piece is joined with the one before.
    resolution: f64,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Piece {
    /// Length of the piece; `end` is its end. Both are in seconds of the drive's time.
    length: f64,
    end: f64,
    over: f64,
    under: f64,
}

impl Piece {
    fn join(&mut self, next: &Piece) {
        self.length += next.length;
        self.end = next.end;
        self.over += next.over;
        self.under += next.under;
    }
}

impl RatioCurve {
    /// Adds a piece for the `length` seconds before `end`, with the ratio `over` / `under`.
    pub(crate) fn add(&mut self, end: f64, length: f64, over: f64, under: f64) {
        let next = Piece { length, end, over, under };
        match self.pieces.last_mut() {
            Some(last) if last.length + length <= self.resolution => last.join(&next),
            _ => self.pieces.push(next),
        }
        if self.pieces.len() > MAX_PIECES {
            let whole: f64 = self.pieces.iter().map(|piece| piece.length).sum();
            self.resolution = (whole / MAX_PIECES as f64 * 2.0).max(self.resolution);
            let mut joined: Vec<Piece> = Vec::with_capacity(MAX_PIECES / 2 + 1);
            for pair in self.pieces.chunks(2) {
                let mut piece = pair[0];
                pair[1..].iter().for_each(|next| piece.join(next));
                joined.push(piece);
            }
            self.pieces = joined;
        }
    }

    /// Returns the curve: ends of pieces in seconds, and ratios. Pieces whose `under` is 0 are left out.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let pieces = self.pieces.iter().filter(|piece| piece.under > 0.0);
        pieces.map(|piece| (piece.end, piece.over / piece.under))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_curve_is_as_it_was_added() {
        let mut curve = RatioCurve::default();
        curve.add(1.0, 1.0, 30.0, 10.0);
        curve.add(3.0, 2.0, 5.0, 0.0);
        curve.add(4.0, 1.0, 40.0, 10.0);
        assert_eq!(curve.points().collect::<Vec<_>>(), [(1.0, 3.0), (4.0, 4.0)]);
    }

    proptest! {
        /// Whatever the number of pieces: the space is limited, time increases, and both sides add up.
        #[test]
        fn a_long_curve_keeps_its_sums(lengths in prop::collection::vec(1_u16..1000, 0..3000)) {
            let mut curve = RatioCurve::default();
            let (mut end, mut over, mut under) = (0.0, 0.0, 0.0);
            for length in &lengths {
                let length = f64::from(*length);
                end += length;
                over += length * 3.0;
                under += length;
                curve.add(end, length, length * 3.0, length);
                prop_assert!(curve.pieces.len() <= MAX_PIECES);
            }
            let sum = |of: fn(&Piece) -> f64| curve.pieces.iter().map(of).sum::<f64>();
            prop_assert_eq!(sum(|it| it.over), over);
            prop_assert_eq!(sum(|it| it.under), under);
            prop_assert_eq!(sum(|it| it.length), end);
            let ends: Vec<f64> = curve.pieces.iter().map(|it| it.end).collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
            if lengths.len() >= MAX_PIECES {
                prop_assert!(ends.len() > MAX_PIECES / 8, "{}", ends.len());
            }
        }
    }
}
