//! Blocks of a drive at one moment, which the script draws.

use maud::{Markup, html};

/// Picture of the blocks of a drive at one moment.
pub(super) struct Picture<'a> {
    /// Number of blocks of the drive; `free_blocks` of them are free.
    pub(super) blocks: u32,
    pub(super) free_blocks: u32,
    /// Number of neighbouring blocks that a square stands for.
    pub(super) blocks_per_cell: u32,
    /// Cells in base64.
    pub(super) cells: &'a str,
}

/// Returns the section with the blocks; `moment` says when they were so. Without JavaScript only the sentence is shown.
pub(super) fn section(picture: &Picture, moment: &str) -> Markup {
    let Picture { blocks, free_blocks, blocks_per_cell, cells } = picture;
    let square = match blocks_per_cell {
        1 => "a block, which is erased and collected as one".to_owned(),
        many => format!("{many} neighbouring blocks, each erased and collected as one"),
    };
    html! {
        section {
            h2 { "Inside the drive" }
            p.faint { (blocks) " blocks, " (free_blocks) " of them free, " (moment) ". A square is " (square) "." }
            div.inside {
                canvas data-cells=(cells) role="img" hidden
                    aria-label={ "The blocks of the drive, " (free_blocks) " of " (blocks) " free" } {}
                p.faint {}
            }
        }
    }
}
