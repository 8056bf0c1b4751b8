//! Moments of a recording of the inside as a table, for a terminal and for a page without JavaScript.

use super::format;
use crate::report::{Cell, Column, RecordedPicture, Recording, Series, Table};

/// Maximum number of moments.
const MAX_MOMENTS: usize = 8;

/// Maximum number of characters for the blocks.
const MAX_CHARACTERS: usize = 20;

/// Characters by valid share, from 0 to 100 %.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// ASCII characters by valid share.
const SHADES_ASCII: [char; 5] = ['.', '-', '+', '*', '#'];

/// Returns a few moments of the recording as a table: step, bytes written, write amplification since the last
/// moment, free blocks, and the valid shares of the blocks as characters.
pub(super) fn table(recording: &Recording) -> Option<Table> {
    let cells = recording.pictures_of_cells()?;
    let count = recording.pictures.len();
    let mut shown: Vec<usize> =
        (0..MAX_MOMENTS).map(|moment| moment * (count - 1) / (MAX_MOMENTS - 1)).collect();
    shown.dedup();
    let none = RecordedPicture::default();
    let rows = shown.iter().enumerate().map(|(row, &at)| {
        let picture = &recording.pictures[at];
        let before = row.checked_sub(1).map_or(&none, |row| &recording.pictures[shown[row]]);
        let step = recording.steps.get(picture.step as usize).map_or("", String::as_str);
        vec![
            Cell::from(format::label(step, "")),
            Cell::from(picture.host_written_bytes),
            amplification(before, picture).map_or(Cell::from(""), Cell::from),
            Cell::from(100.0 * f64::from(picture.free_blocks) / f64::from(recording.blocks)),
            Cell::from(format!("|{}|", shades(&cells[at], MAX_CHARACTERS, false))),
        ]
    });
    let columns =
        [("step", ""), ("written", "B"), ("amplification", ""), ("free", "%"), ("valid_share", "")];
    Some(Table {
        name: "blocks over the run".to_owned(),
        rows: rows.collect(),
        columns: columns.iter().map(|(name, unit)| Column::new(*name, *unit)).collect(),
    })
}

/// Returns the write amplification between two moments; `None` if the host wrote nothing.
fn amplification(before: &RecordedPicture, after: &RecordedPicture) -> Option<f64> {
    let host = after.host_written_bytes.saturating_sub(before.host_written_bytes);
    let flash = after.flash_written_bytes.saturating_sub(before.flash_written_bytes);
    (host > 0).then(|| flash as f64 / host as f64)
}

/// Returns the valid shares of the blocks as at most `most` characters. Each stands for neighbouring cells of
/// a picture, of four bytes each ([`ssdlab_model::ftl::Ssd::fill_cells`]).
pub fn shades(cells: &[u8], most: usize, ascii: bool) -> String {
    let signs = if ascii { SHADES_ASCII } else { SHADES };
    let valid: Vec<usize> = cells.chunks_exact(4).map(|it| usize::from(it[1])).collect();
    let together = valid.len().div_ceil(most.max(1)).max(1);
    let sign = |part: &[usize]| {
        let mean = part.iter().sum::<usize>() / part.len();
        signs[(mean * (signs.len() - 1) + 127) / 255]
    };
    valid.chunks(together).map(sign).collect()
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Returns the position of each moment along the curves: the GiB written by the host.
pub(super) fn positions(recording: &Recording) -> impl Iterator<Item = f64> {
    recording.pictures.iter().map(|it| gib(it.host_written_bytes))
}

/// Returns the write amplification and the free blocks over the GiB written by the host.
pub(super) fn curves(recording: &Recording) -> Vec<Series> {
    let series = |name: &str, unit_y: &str, points: Vec<(f64, f64)>| {
        let (x, y) = points.into_iter().unzip();
        let (unit_x, unit_y) = ("GiB".to_owned(), unit_y.to_owned());
        Series { name: name.to_owned(), unit_x, unit_y, x, y }
    };
    let between = recording.pictures.windows(2).filter_map(|pair| {
        Some((gib(pair[1].host_written_bytes), amplification(&pair[0], &pair[1])?))
    });
    let free = recording.pictures.iter().map(|it| {
        let share = 100.0 * f64::from(it.free_blocks) / f64::from(recording.blocks);
        (gib(it.host_written_bytes), share)
    });
    vec![
        series("write_amplification", "", between.collect()),
        series("free_blocks", "%", free.collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_go_from_nothing_valid_to_all() {
        let cells: Vec<u8> = [0, 64, 128, 192, 255].iter().flat_map(|&it| [3, it, 0, 0]).collect();
        assert_eq!(shades(&cells, MAX_CHARACTERS, false), "·░▒▓█");
        assert_eq!(shades(&cells, MAX_CHARACTERS, true), ".-+*#");
        assert_eq!(
            shades(&[0, 255, 0, 0].repeat(1000), MAX_CHARACTERS, false),
            "█".repeat(MAX_CHARACTERS)
        );
        assert_eq!(shades(&[], MAX_CHARACTERS, false), "");
    }

    #[test]
    fn amplification_is_that_of_the_time_between() {
        let picture = |host_written_bytes, flash_written_bytes| RecordedPicture {
            host_written_bytes,
            flash_written_bytes,
            ..RecordedPicture::default()
        };
        assert_eq!(amplification(&picture(10, 10), &picture(20, 40)), Some(3.0));
        assert_eq!(amplification(&picture(10, 10), &picture(10, 40)), None);
        // An edited file gives no figures, and must not cause a panic.
        assert_eq!(amplification(&picture(20, 40), &picture(10, 10)), None);
    }
}
