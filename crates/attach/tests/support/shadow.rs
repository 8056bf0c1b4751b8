//! What a drive must hold, with one request at a time.

use std::time::Instant;

use rand::{Rng, RngExt};
use ssdlab_attach::engine::Engine;

/// What each sector of 512 bytes may hold: everything since it was last known to be durable. A
/// value is the number of the write, and 0 is zeros.
pub struct Shadow {
    sectors: Vec<Vec<u64>>,
    writes: u64,
    unit: u64,
}

const SECTOR: u64 = 512;

fn content(sector: usize, write: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    if write > 0 {
        for (index, place) in bytes.chunks_mut(16).enumerate() {
            place[..8].copy_from_slice(&write.to_le_bytes());
            place[8..].copy_from_slice(&((sector as u64) << 8 | index as u64).to_le_bytes());
        }
    }
    bytes
}

impl Shadow {
    /// That of a drive that was never written.
    pub fn new(engine: &Engine) -> Shadow {
        let sectors = vec![vec![0]; (engine.capacity() / SECTOR) as usize];
        Shadow { sectors, writes: 0, unit: engine.unit() }
    }

    /// Everything is durable as it is.
    pub fn mark_durable(&mut self) {
        for states in &mut self.sectors {
            states.drain(..states.len() - 1);
        }
    }

    fn range(&self, generator: &mut impl Rng) -> std::ops::Range<usize> {
        let total = self.sectors.len();
        let most = [1, 8, 8, 8, 64, 512][generator.random_range(0..6)];
        let length = if generator.random_range(0..3) == 0 {
            generator.random_range(1..=most)
        } else {
            most.max(8)
        };
        let mut first = generator.random_range(0..total - length);
        if length % 8 == 0 && generator.random_range(0..4) > 0 {
            first -= first % (self.unit / SECTOR) as usize;
        }
        first..first + length
    }

    /// One random request, checked as far as it can be.
    pub fn step(&mut self, engine: &Engine, generator: &mut impl Rng) {
        let range = self.range(generator);
        let offset = range.start as u64 * SECTOR;
        match generator.random_range(0..20) {
            0..11 => self.write(engine, range, generator.random_range(0..8) == 0),
            11..15 => self.read(engine, range),
            15..17 => {
                let length = range.len() as u64 * SECTOR;
                let _ = engine.trim(Instant::now(), offset, length, true).expect("a trim");
                for sector in range {
                    self.sectors[sector].push(0);
                }
            }
            17 => {
                let length = range.len() as u64 * SECTOR;
                let _ = engine.zero(Instant::now(), offset, length, false).expect("zeros");
                for sector in range {
                    self.sectors[sector].push(0);
                }
            }
            _ => {
                let _ = engine.flush(Instant::now()).expect("a flush");
                self.mark_durable();
            }
        }
    }

    fn write(&mut self, engine: &Engine, range: std::ops::Range<usize>, fua: bool) {
        self.writes += 1;
        let offset = range.start as u64 * SECTOR;
        let data: Vec<u8> = range.clone().flat_map(|it| content(it, self.writes)).collect();
        let _ = engine.write(Instant::now(), offset, &data, fua).expect("a write");
        for sector in range {
            let states = &mut self.sectors[sector];
            states.push(self.writes);
            if fua {
                states.drain(..states.len() - 1);
            }
        }
    }

    fn read(&self, engine: &Engine, range: std::ops::Range<usize>) {
        let mut data = vec![0; range.len() * SECTOR as usize];
        let _ =
            engine.read(Instant::now(), range.start as u64 * SECTOR, &mut data).expect("a read");
        for (sector, data) in range.zip(data.chunks(SECTOR as usize)) {
            let expected = *self.sectors[sector].last().expect("a state");
            let found = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
            let of = u64::from_le_bytes(data[8..16].try_into().expect("eight bytes")) >> 8;
            assert!(
                data == content(sector, expected),
                "sector {sector} holds write {found} of sector {of}, not write {expected}"
            );
        }
    }

    /// After the drive was opened: every sector holds one of the states that it may, and those are
    /// durable from now on.
    pub fn check(&mut self, engine: &Engine) {
        let mut data = vec![0; 1 << 20];
        let total = self.sectors.len();
        let per_read = data.len() / SECTOR as usize;
        for first in (0..total).step_by(per_read) {
            let count = per_read.min(total - first);
            let data = &mut data[..count * SECTOR as usize];
            let _ = engine.read(Instant::now(), first as u64 * SECTOR, data).expect("a read");
            for (index, data) in data.chunks(SECTOR as usize).enumerate() {
                let states = &mut self.sectors[first + index];
                let found = states.iter().rev().find(|&&it| data == content(first + index, it));
                let Some(&found) = found else {
                    let write = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
                    panic!("sector {} holds write {write}, not {states:?}", first + index);
                };
                *states = vec![found];
            }
        }
    }
}
