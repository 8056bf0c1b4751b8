//! SQLite on an attached drive that loses power while transactions are committed.
//!
//! `SSDLAB_CUTS=200` cuts it as often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rusqlite::Connection;

use crate::support::{Place, count, has_devices, has_tools};

/// Inserts a row a transaction until that fails.
fn insert(path: &std::path::Path, journal: &str, committed: &AtomicU64) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", journal)?;
    // FULL does not make the deletion of a rollback journal durable, which is what commits.
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, text)", ())?;
    loop {
        let next = committed.load(Ordering::SeqCst) + 1;
        let text = format!("{next:0200}");
        connection.execute("INSERT INTO rows VALUES (?1, ?2)", (next as i64, text))?;
        committed.store(next, Ordering::SeqCst);
    }
}

/// The rows that are there, if the database is sound.
fn rows(path: &std::path::Path) -> Result<u64, String> {
    let connection = Connection::open(path).map_err(|it| it.to_string())?;
    let sound: String = connection
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .map_err(|it| it.to_string())?;
    if sound != "ok" {
        return Err(sound);
    }
    let query = "SELECT count(*), coalesce(max(id), 0) FROM rows";
    let (count, last): (i64, i64) = connection
        .query_row(query, (), |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(|it| it.to_string())?;
    if count != last {
        return Err(format!("{count} rows, and the last is {last}"));
    }
    Ok(last as u64)
}

/// Cuts power `cuts` times; returns what was lost, in words.
fn cut(cuts: u32, options: &[&str], seed: u64) -> Vec<String> {
    let place = Place::new("sim:,scale=1/1024");
    let point = place.path("mounted");
    std::fs::create_dir(&point).unwrap();
    let path = point.join("rows.sqlite");
    let mount = ["--time", "fast", "--mount", point.to_str().unwrap(), "--fs", "ext4"];
    // A file system is made and made durable before anything may be lost.
    place.attach(&mount).detach();
    let options = [&mount[..], options].concat();
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut lost = Vec::new();
    let committed = AtomicU64::new(0);
    for number in 0..cuts {
        let attached = place.attach(&options);
        let journal = ["DELETE", "WAL"][number as usize % 2];
        let pause = Duration::from_millis(generator.random_range(20..250));
        let before = committed.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| insert(&path, journal, &committed));
            // However slow this machine is now, something is committed before the cut.
            let until = Instant::now() + Duration::from_secs(60);
            while committed.load(Ordering::SeqCst) == before
                && !writer.is_finished()
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(pause);
            place.done(&["power-cut", "disk.ssd"]);
            // The file system fails, or its cache is full of what can never be written.
            assert!(writer.join().unwrap().is_err());
        });
        place.done(&["detach", "disk.ssd"]);
        drop(attached);
        let attached = match std::panic::catch_unwind(|| place.attach(&mount)) {
            Ok(attached) => attached,
            Err(_) => {
                lost.push(format!("cut {number}: the file system cannot be mounted"));
                return lost;
            }
        };
        let wanted = committed.load(Ordering::SeqCst);
        match rows(&path) {
            Ok(found) if found >= wanted => committed.store(found, Ordering::SeqCst),
            Ok(found) => lost.push(format!("cut {number}: {found} rows of {wanted}")),
            Err(why) => lost.push(format!("cut {number}: {why}")),
        }
        attached.detach();
        if !lost.is_empty() {
            return lost;
        }
    }
    lost
}

#[test]
fn an_honest_drive_loses_no_committed_transaction() {
    if has_devices("SQLite on an honest drive") && has_tools("SQLite", &["mkfs.ext4"]) {
        assert_eq!(cut(count("SSDLAB_CUTS", 6), &[], 1), Vec::<String>::new());
    }
}

#[test]
fn a_drive_that_lies_about_flushes_is_caught() {
    if has_devices("SQLite on a drive that lies") && has_tools("SQLite", &["mkfs.ext4"]) {
        // It ends with the first loss, which comes soon.
        let lost = cut(40, &["--lie-about-flush"], 2);
        assert!(!lost.is_empty(), "the lie went unnoticed");
    }
}
