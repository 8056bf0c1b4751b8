//! Nonsense on the socket harms neither the server nor the image.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::client::{Client, FLUSH, READ, TRIM, WRITE};
use crate::structured::{Structured, queries};
use crate::support::Place;

#[test]
fn nonsense_is_answered_or_hung_up_on() {
    talk_nonsense("fast");
}

#[test]
fn so_it_is_in_real_time() {
    talk_nonsense("real");
}

fn talk_nonsense(time: &str) {
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", time]);
    let socket = place.path("socket");
    let mut generator = Pcg64Mcg::seed_from_u64(3);
    let mut client = Client::connect(&socket).unwrap();
    let data: Vec<u8> = (0..8192u32).map(|it| it as u8).collect();
    assert_eq!(client.ask(WRITE, 0, 8192, &data).unwrap(), 0);
    assert_eq!(client.ask(FLUSH, 0, 0, &[]).unwrap(), 0);
    for round in 0..150 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut bytes = vec![0; generator.random_range(1..600)];
        generator.fill_bytes(&mut bytes);
        if round % 3 > 0 {
            // The beginning is right, so that what follows is looked at.
            bytes.splice(..0, [&3u32.to_be_bytes()[..], b"IHAVEOPT"].concat());
        }
        if round % 3 == 2 {
            let option = generator.random_range(0..13u32);
            let length = generator.random_range(0..64u32);
            bytes.splice(12..12, [option.to_be_bytes(), length.to_be_bytes()].concat());
        }
        // It may hang up while we talk.
        let _ = stream.write_all(&bytes);
        let mut answer = [0; 256];
        let _ = stream.read(&mut answer);
    }
    // Requests that are well formed and wrong.
    let size = client.size;
    let inval = 22;
    for (kind, offset, length, error) in [
        (READ, size, 4096, inval),
        (READ, u64::MAX - 100, 4096, inval),
        (READ, 0, 0, inval),
        (TRIM, size - 4096, 8192, inval),
        (77, 0, 4096, inval),
        (READ, 0, u32::MAX, inval),
    ] {
        let case = format!("{kind} at {offset} of {length}");
        assert_eq!(client.ask(kind, offset, length, &[]).unwrap(), error, "{case}");
    }
    assert_eq!(client.ask(WRITE, size, 8192, &data).unwrap(), 28, "behind the end");
    // Random requests after a right handshake.
    for _ in 0..50 {
        let mut broken = Client::connect(&socket).unwrap();
        let mut bytes = vec![0; 200];
        generator.fill_bytes(&mut bytes);
        let kind = generator.random_range(2..9);
        let _ = broken.send(kind, 9, size + generator.random_range(0..9u64), 512, &bytes);
    }
    // Nonsense in what is said of contexts, and then to a client that has one.
    for _ in 0..100 {
        let mut talker = Structured::greet(&socket);
        talker.option(8, &[]);
        let mut data = queries(&[b"base:allocation", b"base:"]);
        let at = generator.random_range(0..data.len());
        data[at] ^= 1 << generator.random_range(0..8);
        data.truncate(generator.random_range(data.len() / 2..=data.len()));
        let replies = talker.option(generator.random_range(9..11), &data);
        assert!(matches!(replies.last(), Some((1 | 0x8000_0003 | 0x8000_0006, _))), "{replies:?}");
    }
    let mut structured = Structured::connect(&socket, true);
    for _ in 0..300 {
        let flags = generator.random_range(0..64);
        let kind = [0, 4, 7, 7, 9, 300][generator.random_range(0..6)];
        let offset = size - 4096 * generator.random_range(0..4) + generator.random_range(0..3);
        let length = [0, 1, 4096, 70_000, u32::MAX][generator.random_range(0..5)];
        let chunks = structured.ask(kind, flags, offset, length);
        assert!(chunks.last().is_some_and(|last| last.0));
    }
    let mut found = vec![0; 8192];
    assert_eq!(client.read(0, &mut found).unwrap(), 0);
    assert!(found == data);
    drop((client, structured));
    attached.detach();
    place.done(&["check", "disk.ssd"]);
}
