//! What durability costs a database: SQLite-like inserts, each a transaction of its own, with and
//! without flushes, on the two drives of a blog post on write barriers under Linux. Published there:
//! 7 times faster without on a GoodRAM C50, not quite 4 times on an Intel drive with SandForce's
//! controller.
//!
//! `cargo test --release -p ssdlab-drive --test durable_inserts -- --nocapture` prints the figures.

use ssdlab_model::Ssd;
use ssdlab_model::profile::Profile;
use ssdlab_model::units::{GIB, Instant, KIB, Nanoseconds, Sector, SectorCount};

/// What the host needs for one insert besides waiting for the drive: SQLite, ext4 and its journal
/// thread, on a machine of 2013. The same for both drives; assumed: some 460 inserts a second
/// without barriers.
const HOST: Nanoseconds = Nanoseconds::from_micros(1700);

/// Inserts that are timed.
const INSERTS: u64 = 2000;

/// The writes of an insert up to each of its four flushes, in SQLite's
/// DELETE mode on ext4: the rollback journal, its header, the database, and the commit of ext4's
/// journal.
const STEPS: [&[Area]; 4] = [
    &[Area::Rollback, Area::Rollback],
    &[Area::Rollback],
    &[Area::Database, Area::Database],
    &[Area::Ext4Journal, Area::Ext4Journal, Area::Ext4Journal],
];

/// What a write belongs to. Writes are blocks of 4 KiB.
#[derive(Clone, Copy)]
enum Area {
    Rollback,
    Database,
    Ext4Journal,
}

struct Host {
    ssd: Ssd,
    now: Instant,
    blocks: u64,
}

impl Host {
    fn write(&mut self, area: Area) {
        let first = match area {
            // A database grows at its end; the same blocks are written again and again elsewhere.
            Area::Database => GIB + KIB * 4 * (self.blocks / 8),
            Area::Rollback => GIB * 2 + KIB * 4 * (self.blocks % 4),
            Area::Ext4Journal => GIB * 3 + KIB * 4 * (self.blocks % 8192),
        };
        self.blocks += 1;
        let count = SectorCount::of(KIB * 4);
        self.now = self.ssd.write_sectors(self.now, Sector::at(first), count);
    }

    /// Inserts rows; returns the mean time of one.
    fn insert(&mut self, flushes: bool) -> Nanoseconds {
        let start = self.now;
        for _ in 0..INSERTS {
            for step in STEPS {
                for &area in step {
                    self.write(area);
                }
                if flushes {
                    self.now = self.ssd.flush(self.now);
                }
            }
            self.now += HOST;
        }
        self.now.since(start) / INSERTS
    }
}

/// The time of an insert with flushes, without, and how many times shorter that is.
fn measure(profile: &str) -> (Nanoseconds, Nanoseconds, f64) {
    let configuration = Profile::named(profile).unwrap().configuration().unwrap();
    let ssd = Ssd::new(&configuration).unwrap();
    let mut host = Host { ssd, now: Instant::START, blocks: 0 };
    let with = host.insert(true);
    assert_eq!(host.ssd.counters().flushes, 4 * INSERTS, "4.0 flushes an insert");
    let without = host.insert(false);
    let ratio = with.seconds() / without.seconds();
    println!("{profile:20} with {with:>10}, without {without:>10}: {ratio:.2} times");
    (with, without, ratio)
}

#[test]
fn without_flushes_inserts_are_as_much_faster_as_was_published() {
    let (_, _, goodram) = measure("goodram-c50-120");
    let (_, _, intel) = measure("intel-sf2281-120");
    assert!((6.5..=7.5).contains(&goodram), "published: 7 times; {goodram:.2}");
    assert!((3.5..=4.0).contains(&intel), "published: not quite 4 times; {intel:.2}");
}

#[test]
fn a_drive_that_ignores_flushes_is_as_fast_as_one_that_gets_none() {
    let mut profile = Profile::named("goodram-c50-120").unwrap();
    profile.set("controller.flush", "ignored").unwrap();
    let ssd = Ssd::new(&profile.configuration().unwrap()).unwrap();
    let mut host = Host { ssd, now: Instant::START, blocks: 0 };
    let (with, without) = (host.insert(true), host.insert(false));
    assert!(with.seconds() / without.seconds() < 1.3, "{with} and {without}");
}
