//! Ranges of bytes, and the division of data into windows.

use serde::{Deserialize, Serialize};

/// A range of bytes of a file or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Span {
    /// Returns the span of `length` bytes from `offset` on.
    pub fn new(offset: u64, length: u64) -> Span {
        Span { offset, length }
    }

    /// Returns the offset right behind the last byte.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }

    /// Returns the bytes that both spans have in common; `None` if there are none.
    pub fn overlap(self, other: Span) -> Option<Span> {
        let offset = self.offset.max(other.offset);
        let end = self.end().min(other.end());
        (offset < end).then(|| Span::new(offset, end - offset))
    }

    /// Divides the span into pieces of `step` bytes, the last one possibly shorter.
    pub fn chunks(self, step: u64) -> impl Iterator<Item = Span> {
        assert!(step > 0, "pieces have a length");
        (self.offset..self.end())
            .step_by(step as usize)
            .map(move |at| Span::new(at, step.min(self.end() - at)))
    }
}

/// Divides runs of data into windows of about `length` bytes. Windows begin at multiples of `length`; a
/// piece shorter than half of that is joined with its neighbour of the same run.
pub fn split_into_windows(runs: &[Span], length: u64) -> Vec<Span> {
    let mut windows: Vec<Span> = Vec::new();
    for run in runs {
        let first = windows.len();
        let mut at = run.offset;
        while at < run.end() {
            let next = ((at / length + 1) * length).min(run.end());
            let piece = Span::new(at, next - at);
            match windows[first..].last_mut() {
                Some(last) if piece.length < length / 2 || last.length < length / 2 => {
                    last.length += piece.length;
                }
                _ => windows.push(piece),
            }
            at = next;
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_all_runs_and_no_more() {
        let runs = [Span::new(0, 1000), Span::new(1010, 5), Span::new(1050, 130)];
        let windows = split_into_windows(&runs, 100);
        let total: u64 = windows.iter().map(|it| it.length).sum();
        assert_eq!(total, 1135);
        assert!(windows.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
        assert!(windows.iter().all(|it| it.length < 200));
        assert!(windows.contains(&Span::new(1010, 5)), "a short run is a window of its own");
        assert!(windows.contains(&Span::new(1100, 80)), "{windows:?}");
    }

    #[test]
    fn spans_overlap_by_what_they_share() {
        let span = Span::new(10, 10);
        assert_eq!(span.overlap(Span::new(15, 10)), Some(Span::new(15, 5)));
        assert_eq!(span.overlap(Span::new(20, 10)), None);
        let chunks: Vec<Span> = Span::new(5, 25).chunks(10).collect();
        assert_eq!(chunks, [Span::new(5, 10), Span::new(15, 10), Span::new(25, 5)]);
    }
}
