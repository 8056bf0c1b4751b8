//! Clients that say nothing, or ask for more than they take, harm nobody else.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::client::{Client, FLUSH, READ, TRIM, WRITE};
use crate::support::{Place, skipped};

const WRITE_ZEROES: u16 = 6;

/// Connections that a server takes.
const CONNECTIONS: usize = 64;

#[test]
fn clients_that_say_nothing_keep_nobody_else_out_for_long() {
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "real"]);
    let socket = place.path("socket");
    let mut quiet = Client::connect(&socket).unwrap();
    let silent: Vec<_> = (0..CONNECTIONS).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut all = [0; 18];
    for mut stream in &silent[..CONNECTIONS - 1] {
        stream.read_exact(&mut all).unwrap();
    }
    // It asks until it is let in, which is when one that says nothing has been let go.
    let mut client = Client::connect(&socket).unwrap();
    let mut is_gone = |mut stream: &UnixStream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut all), Ok(0))
    };
    let gone = silent[..CONNECTIONS - 1].iter().filter(|stream| is_gone(stream)).count();
    assert!(gone > 0, "there was room all along");
    assert_eq!(client.ask(FLUSH, 0, 0, &[]).unwrap(), 0);
    // Who has the drive may say nothing for as long as they like.
    assert_eq!(quiet.ask(FLUSH, 0, 0, &[]).unwrap(), 0);
    drop((client, quiet, silent));
    attached.detach();
}

/// Sends requests for as long as it can, and takes no reply; returns how much memory that took.
fn memory_for(requests: u64, kind: u16, length: u32) -> Option<u64> {
    // What it answers takes it seconds.
    let place = Place::new("sim:,scale=1/256,link.mb_per_second=20,flash.channel_mb_per_second=5");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "real"]);
    let mut client = Client::connect(&place.path("socket")).unwrap();
    let before = attached.memory_peak()?;
    let data = vec![kind as u8; if kind == WRITE { length as usize } else { 0 }];
    let sender = std::thread::spawn(move || {
        for request in 0..requests {
            let offset = request % 64 * u64::from(length);
            if client.send(kind, request, offset, length, &data).is_err() {
                return;
            }
        }
        // It stays until the server goes.
        let _ = client.reply();
    });
    std::thread::sleep(Duration::from_secs(2));
    let after = attached.memory_peak()?;
    attached.kill();
    sender.join().unwrap();
    Some(after - before)
}

#[test]
fn what_waits_for_the_drives_time_takes_little_memory() {
    let test = "memory of what waits";
    for (requests, kind, length) in [
        (8_000, READ, 60 << 10),
        (64, READ, 16 << 20),
        (12_000, WRITE, 32 << 10),
        (500, WRITE, 1 << 20),
        (2_000_000, TRIM, 4096),
        (1, WRITE_ZEROES, 1 << 30),
    ] {
        let Some(taken) = memory_for(requests, kind, length) else {
            return skipped(test, "this system does not say how much memory a program takes");
        };
        let taken = taken >> 20;
        assert!(taken < 256, "{requests} requests of kind {kind} take {taken} MiB");
    }
}
