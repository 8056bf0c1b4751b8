//! Recordings of the inside of a simulated SSD over a run: pictures of the state of its blocks.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ssdlab_drive::recording::{CELLS_MAX, PICTURES_MAX, Track};
use ssdlab_model::ftl::inside::CELL_BYTES;

/// Maximum number of recordings in a report: an experiment has a drive for each of its workloads.
pub(crate) const RECORDINGS_MAX: usize = 16;

/// Pictures of the inside of one simulated SSD over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Names of what was done with it.
    pub steps: Vec<String>,
    /// Blocks (what is erased and collected as one) that it has.
    pub blocks: u32,
    /// Neighbouring blocks that a cell of a picture stands for.
    pub blocks_per_cell: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The moment of each picture: its step, its time, and the counters by then.
    pub pictures: Vec<RecordedPicture>,
    /// The cells of all pictures, one picture after the other: compressed (zlib, RFC 1950), in base64. A cell is
    /// four bytes. The first is what the blocks are used for in its low three bits (0 free, 1 written to by the
    /// host, 2 written to by garbage collection, 3 full, 4 being collected, 5 retired), with 8 added where
    /// garbage collection filled them, and 16 in SLC mode. The second is the valid share in 255ths. The
    /// third is how many blocks were opened since, in 128ths of the number of blocks; 255 is not known. The
    /// fourth is the erases beyond those of the least worn block.
    pub cells: String,
}

/// The moment of a picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPicture {
    /// The number of its step in `steps`, from 0.
    pub step: u32,
    /// Seconds of the drive's time.
    pub seconds: f64,
    /// Bytes the host had written.
    pub host_written_bytes: u64,
    /// Bytes the flash had been programmed with.
    pub flash_written_bytes: u64,
    /// Blocks that were free.
    pub free_blocks: u32,
}

impl Recording {
    /// Returns recordings of the longest of `tracks`, at most `RECORDINGS_MAX`, in their original order.
    pub fn of_tracks(mut tracks: Vec<Track>) -> Vec<Recording> {
        if tracks.len() > RECORDINGS_MAX {
            let mut lengths: Vec<usize> = tracks.iter().map(|it| it.pictures.len()).collect();
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            let least = lengths[RECORDINGS_MAX - 1];
            tracks.retain(|it| it.pictures.len() >= least);
            tracks.truncate(RECORDINGS_MAX);
        }
        tracks.iter().map(Recording::of).collect()
    }

    fn of(track: &Track) -> Recording {
        let pictures = track.pictures.iter().map(|it| RecordedPicture {
            step: it.step as u32,
            seconds: it.at.since(ssdlab_units::Instant::START).seconds(),
            host_written_bytes: it.host_written.bytes(),
            flash_written_bytes: it.flash_written.bytes(),
            free_blocks: it.free_blocks,
        });
        let mut cells = ZlibEncoder::new(Vec::new(), Compression::best());
        for picture in &track.pictures {
            cells.write_all(&picture.cells).expect("memory takes all of it");
        }
        Recording {
            steps: track.steps.clone(),
            blocks: track.blocks,
            blocks_per_cell: track.blocks_per_cell,
            block_bytes: track.block.bytes(),
            pictures: pictures.collect(),
            cells: STANDARD.encode(cells.finish().expect("memory takes all of it")),
        }
    }

    /// Decompresses the cells of each picture; `None` if the data is damaged or its length does not fit the
    /// number of pictures.
    pub fn pictures_of_cells(&self) -> Option<Vec<Vec<u8>>> {
        let length = self.blocks.div_ceil(self.blocks_per_cell.max(1)) as usize * CELL_BYTES;
        let all = length.checked_mul(self.pictures.len())?;
        if length == 0 || length > CELLS_MAX * CELL_BYTES || self.pictures.len() > PICTURES_MAX {
            return None;
        }
        let packed = STANDARD.decode(&self.cells).ok()?;
        let mut cells = Vec::with_capacity(all);
        ZlibDecoder::new(&packed[..]).take(all as u64 + 1).read_to_end(&mut cells).ok()?;
        (cells.len() == all).then(|| cells.chunks(length).map(<[u8]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_drive::recording::Picture;
    use ssdlab_units::{ByteLength, Instant};

    fn track(pictures: usize) -> Track {
        let picture = |number: usize| Picture {
            step: 0,
            at: Instant::from_nanos(number as u64),
            host_written: ByteLength::new(4096 * number as u64),
            flash_written: ByteLength::new(8192 * number as u64),
            free_blocks: 2,
            cells: (0..3 * CELL_BYTES).map(|at| (at * number) as u8).collect(),
        };
        Track {
            steps: vec!["fill".to_owned()],
            blocks: 6,
            blocks_per_cell: 2,
            block: ByteLength::new(1 << 20),
            pictures: (0..pictures).map(picture).collect(),
        }
    }

    #[test]
    fn cells_are_what_they_were() {
        let recordings = Recording::of_tracks(vec![track(5)]);
        let cells = recordings[0].pictures_of_cells().unwrap();
        let before: Vec<Vec<u8>> = track(5).pictures.into_iter().map(|it| it.cells).collect();
        assert_eq!(cells, before);
    }

    #[test]
    fn what_is_damaged_shows_nothing() {
        let good = Recording::of(&track(5));
        let with = |change: fn(&mut Recording)| {
            let mut it = good.clone();
            change(&mut it);
            it.pictures_of_cells()
        };
        assert_eq!(with(|it| it.cells.truncate(9)), None);
        assert_eq!(with(|it| it.cells.insert(3, '!')), None);
        assert_eq!(with(|it| it.blocks = 7), None, "there are four cells then");
        assert_eq!(with(|it| it.blocks = u32::MAX), None);
        assert_eq!(with(|it| it.blocks_per_cell = 0), None);
        assert_eq!(with(|it| it.pictures.clear()), None);
    }

    #[test]
    fn of_many_drives_those_with_the_longest_lives_are_kept() {
        let tracks: Vec<Track> = (2..2 + 2 * RECORDINGS_MAX).map(track).collect();
        let kept = Recording::of_tracks(tracks);
        let lengths: Vec<usize> = kept.iter().map(|it| it.pictures.len()).collect();
        assert_eq!(lengths, (2 + RECORDINGS_MAX..2 + 2 * RECORDINGS_MAX).collect::<Vec<_>>());
    }
}
