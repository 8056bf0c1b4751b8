//! The program is killed at random moments under load, with many requests under way.
//!
//! `SSDLAB_KILLS=500` kills it as often, `SSDLAB_SEED=7` at other moments.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::client::{Client, FLUSH, TRIM, WRITE};
use crate::support::{Place, count};

const UNIT: usize = 4096;

/// Units that are written: few, so that the drive collects and they meet each other.
const UNITS: u64 = 24_000;

/// Requests under way at a time.
const DEPTH: usize = 16;

/// Added to the number of a change that is a trim. Each has its own: a trim that was flushed must not
/// be taken for a later one that was not.
const TRIMMED: u64 = 1 << 63;

/// What a unit may hold: changes by their number, in the order sent; 0 for what was never written.
struct Ledger {
    units: Vec<Vec<u64>>,
    writes: u64,
}

enum Sent {
    Change {
        first: u64,
        units: u64,
        number: u64,
    },
    /// What each unit held, answered, when the flush was sent.
    Flush(Vec<u64>),
}

fn content(unit: u64, number: u64) -> Vec<u8> {
    if number == 0 || number & TRIMMED != 0 {
        return vec![0; UNIT];
    }
    let piece = [unit.to_le_bytes(), number.to_le_bytes()].concat();
    piece.repeat(UNIT / piece.len())
}

/// Works until the connection breaks or it is time.
fn work(client: &mut Client, ledger: &mut Ledger, generator: &mut Pcg64Mcg, until: Instant) {
    let mut sent: std::collections::HashMap<u64, Sent> = std::collections::HashMap::new();
    let mut answered: Vec<u64> = ledger.units.iter().map(|it| *it.last().unwrap()).collect();
    let mut busy = vec![false; UNITS as usize];
    let mut cookie = 0;
    loop {
        while sent.len() < DEPTH && Instant::now() < until {
            cookie += 1;
            let outcome = if generator.random_range(0..40) == 0 {
                sent.insert(cookie, Sent::Flush(answered.clone()));
                client.send(FLUSH, cookie, 0, 0, &[])
            } else {
                // The large ones are written straight to their place in the image.
                let units = [1, 1, 1, 7, 30][generator.random_range(0..5)];
                let first = generator.random_range(0..=UNITS - units);
                let range = first as usize..(first + units) as usize;
                if busy[range.clone()].contains(&true) {
                    continue;
                }
                busy[range.clone()].fill(true);
                let is_trim = generator.random_range(0..8) == 0;
                ledger.writes += 1;
                let number = ledger.writes | if is_trim { TRIMMED } else { 0 };
                for states in &mut ledger.units[range] {
                    states.push(number);
                }
                sent.insert(cookie, Sent::Change { first, units, number });
                let (offset, length) = (first * UNIT as u64, (units as usize * UNIT) as u32);
                if is_trim {
                    client.send(TRIM, cookie, offset, length, &[])
                } else {
                    let data: Vec<u8> =
                        (first..first + units).flat_map(|it| content(it, number)).collect();
                    client.send(WRITE, cookie, offset, length, &data)
                }
            };
            if outcome.is_err() {
                return;
            }
        }
        if sent.is_empty() {
            return;
        }
        let Ok((cookie, error)) = client.reply() else { return };
        assert_eq!(error, 0);
        match sent.remove(&cookie).expect("it was sent") {
            Sent::Change { first, units, number } => {
                let range = first as usize..(first + units) as usize;
                busy[range.clone()].fill(false);
                answered[range].fill(number);
            }
            Sent::Flush(durable) => {
                for (states, durable) in ledger.units.iter_mut().zip(durable) {
                    let at = states.iter().rposition(|&it| it == durable).unwrap_or(0);
                    states.drain(..at);
                }
            }
        }
    }
}

fn check(socket: &Path, ledger: &mut Ledger, when: &str) {
    let mut client = Client::connect(socket).expect("a connection");
    let mut data = vec![0; 64 * UNIT];
    for first in (0..UNITS).step_by(64) {
        let count = (UNITS - first).min(64) as usize;
        let data = &mut data[..count * UNIT];
        assert_eq!(client.read(first * UNIT as u64, data).unwrap(), 0, "{when}, unit {first}");
        for (unit, data) in (first..).zip(data.chunks(UNIT)) {
            let states = &mut ledger.units[unit as usize];
            let found = states.iter().rev().find(|&&number| data == content(unit, number));
            let Some(&found) = found else {
                let holds = u64::from_le_bytes(data[8..16].try_into().unwrap());
                panic!("{when}: unit {unit} holds write {holds}, and may hold {states:?}");
            };
            *states = vec![found];
        }
    }
}

fn kill_often(profile: &str, options: &[&str], kills: u32, seed: u64) {
    let place = Place::new(profile);
    let socket = place.path("socket");
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut ledger = Ledger { units: vec![vec![0]; UNITS as usize], writes: 0 };
    let options = [&["--nbd", "unix:socket"], options].concat();
    for kill in 0..=kills {
        let attached = place.attach(&options);
        check(&socket, &mut ledger, &format!("after kill {kill} of {profile}, seed {seed}"));
        if kill == kills {
            break;
        }
        let life = Duration::from_micros(generator.random_range(500..120_000));
        let mut client = Client::connect(&socket).expect("a connection");
        std::thread::scope(|scope| {
            let (ledger, generator) = (&mut ledger, &mut generator);
            let until = Instant::now() + Duration::from_secs(20);
            let worker = scope.spawn(move || work(&mut client, ledger, generator, until));
            std::thread::sleep(life);
            attached.kill();
            worker.join().expect("no rule is broken");
        });
    }
    place.done(&["check", "disk.ssd", "--repair"]);
}

fn seed(usual: u64) -> u64 {
    u64::from(count("SSDLAB_SEED", 0)) * 16 + usual
}

/// A drive of 96 MiB, of which the test uses nearly all, so that collection goes on.
const SMALL: &str = "sim:,capacity.logical=96M,capacity.physical=128M,flash.channels=2,\
                     flash.dies=4,flash.pages_per_block=12";

#[test]
fn what_was_flushed_is_there_after_every_kill_and_nothing_that_never_was() {
    kill_often(SMALL, &["--time", "fast"], count("SSDLAB_KILLS", 20), seed(1));
}

#[test]
fn so_it_is_in_real_time_and_with_capacitors() {
    kill_often(SMALL, &[], count("SSDLAB_KILLS", 6), seed(2));
    let protected = format!("{SMALL},controller.power_loss_protection=on");
    kill_often(&protected, &["--time", "fast"], count("SSDLAB_KILLS", 8), seed(3));
    kill_often(&protected, &[], count("SSDLAB_KILLS", 4), seed(4));
}
