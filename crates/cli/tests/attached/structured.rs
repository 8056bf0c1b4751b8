//! Replies in chunks, and what is allocated: as clients of other makers see it, and byte by byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, has_tools, tool};

const MIB: u64 = 1 << 20;

/// Stretches that nbdinfo tells of, with whether they are holes.
fn map(uri: &str) -> Vec<(u64, u64, bool)> {
    let map: Value = serde_json::from_str(&tool("nbdinfo", &["--map", "--json", uri])).unwrap();
    let extents = map.as_array().unwrap().iter();
    let number = |it: &Value, key: &str| it[key].as_u64().unwrap();
    extents
        .map(|it| (number(it, "offset"), number(it, "length"), number(it, "type") == 3))
        .collect()
}

fn fio(uri: &str, place: &Place, job: &[&str]) {
    let output = Command::new("fio")
        .args(["--name=job", "--ioengine=nbd", "--bs=1m", &format!("--uri={uri}")])
        .args(job)
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{job:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn holes_are_seen_by_nbdinfo_and_not_copied_by_nbdcopy() {
    if !has_tools("holes", &["nbdinfo", "nbdcopy", "fio"]) {
        return;
    }
    for time in ["fast", "real"] {
        let place = Place::new("sim:,scale=1/2048");
        let attached = place.attach(&["--nbd", "unix:socket", "--time", time]);
        let uri = attached.at.clone();
        let size: u64 = tool("nbdinfo", &["--size", &uri]).trim().parse().unwrap();
        assert_eq!(map(&uri), [(0, size, true)], "a new drive is one hole");
        fio(&uri, &place, &["--rw=write", "--offset=4m", "--size=8m"]);
        fio(&uri, &place, &["--rw=trim", "--offset=6m", "--size=2m"]);
        let expected = [
            (0, 4 * MIB, true),
            (4 * MIB, 2 * MIB, false),
            (6 * MIB, 2 * MIB, true),
            (8 * MIB, 4 * MIB, false),
            (12 * MIB, size - 12 * MIB, true),
        ];
        assert_eq!(map(&uri), expected, "{time}");
        let info = tool("nbdinfo", &[&uri]);
        assert!(info.contains("structured"), "{info}");
        assert!(info.contains("can_df: true") && info.contains("base:allocation"), "{info}");
        let copy = place.path("copy");
        tool("nbdcopy", &[&uri, copy.to_str().unwrap()]);
        let copied = std::fs::metadata(&copy).unwrap();
        assert_eq!(copied.len(), size);
        let room = std::os::unix::fs::MetadataExt::blocks(&copied) * 512;
        assert!((6 * MIB..9 * MIB).contains(&room), "{room} bytes of room for 6 MiB");
        // Holes read as zeros, and the rest as what it is.
        let bytes = std::fs::read(&copy).unwrap();
        let mut direct = Structured::connect(&place.path("socket"), true);
        for at in [3 * MIB, 5 * MIB, 6 * MIB, 11 * MIB] {
            let (data, _) = direct.read(at, 2 * MIB as u32, 0);
            assert!(data == bytes[at as usize..][..2 << 20], "{time}: at {at}");
        }
        drop(direct);
        attached.detach();
    }
}

#[test]
fn qemu_sees_the_holes_and_copies_both_ways() {
    if !has_tools("qemu-img", &["qemu-img"]) {
        return;
    }
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    let uri = attached.at.clone();
    let source = place.path("source");
    let data: Vec<u8> = (0..3 << 20).map(|at: u32| (at >> 9) as u8 | 1).collect();
    let file = std::fs::File::create(&source).unwrap();
    let client = Structured::connect(&place.path("socket"), false);
    file.set_len(client.size).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &data, 5 * MIB).unwrap();
    let (from, to) = (source.to_str().unwrap(), place.path("back"));
    tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", from, &uri]);
    let map: Value =
        serde_json::from_str(&tool("qemu-img", &["map", "--output=json", "-f", "raw", &uri]))
            .unwrap();
    let filled: Vec<_> = map.as_array().unwrap().iter().filter(|it| it["zero"] == false).collect();
    assert_eq!(filled.len(), 1, "{map}");
    assert_eq!(
        (filled[0]["start"].as_u64(), filled[0]["length"].as_u64()),
        (Some(5 * MIB), Some(3 * MIB))
    );
    tool("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, to.to_str().unwrap()]);
    tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", from, to.to_str().unwrap()]);
    drop(client);
    attached.detach();
}

/// A client that has asked for chunks, and may have chosen the context.
pub struct Structured {
    stream: UnixStream,
    pub size: u64,
}

/// A chunk: whether it is the last of its reply, its kind, and what it holds.
type Chunk = (bool, u16, Vec<u8>);

fn take<const LENGTH: usize>(stream: &mut UnixStream) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// The data of an option that names the export "" and these queries.
pub fn queries(queries: &[&[u8]]) -> Vec<u8> {
    let mut data = 0u32.to_be_bytes().to_vec();
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(*query);
    }
    data
}

impl Structured {
    /// Greets, and asks for nothing yet.
    pub fn greet(socket: &Path) -> Structured {
        let mut stream = UnixStream::connect(socket).unwrap();
        let _: [u8; 18] = take(&mut stream);
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        Structured { stream, size: 0 }
    }

    /// Asks for an option; returns the replies' kinds and data, up to the last.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let length = (data.len() as u32).to_be_bytes();
        let asked = [b"IHAVEOPT", &option.to_be_bytes()[..], &length, data].concat();
        self.stream.write_all(&asked).unwrap();
        let mut replies = Vec::new();
        loop {
            let head: [u8; 20] = take(&mut self.stream);
            let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            assert_eq!(number(8), option);
            let mut data = vec![0; number(16) as usize];
            self.stream.read_exact(&mut data).unwrap();
            replies.push((number(12), data));
            if !matches!(number(12), 2..=4) {
                return replies;
            }
        }
    }

    pub fn connect(socket: &Path, with_context: bool) -> Structured {
        let mut client = Structured::greet(socket);
        assert_eq!(client.option(8, &[]), [(1, Vec::new())]);
        if with_context {
            let chosen = client.option(10, &queries(&[b"base:allocation"]));
            assert_eq!(chosen.len(), 2);
            assert_eq!(chosen[0].1[4..], *b"base:allocation");
        }
        let replies = client.option(7, &[0; 6]);
        assert_eq!(replies.last().unwrap().0, 1);
        client.size = u64::from_be_bytes(replies[0].1[2..10].try_into().unwrap());
        client
    }

    /// One request, and all chunks of its reply.
    pub fn ask(&mut self, kind: u16, flags: u16, offset: u64, length: u32) -> Vec<Chunk> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(*b"a cookie");
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.stream.write_all(&bytes).unwrap();
        let mut chunks = Vec::new();
        loop {
            let head: [u8; 20] = take(&mut self.stream);
            assert_eq!(head[..4], 0x668e_33efu32.to_be_bytes());
            assert_eq!(head[8..16], *b"a cookie");
            let flags = u16::from_be_bytes([head[4], head[5]]);
            let mut data = vec![0; u32::from_be_bytes(head[16..].try_into().unwrap()) as usize];
            self.stream.read_exact(&mut data).unwrap();
            chunks.push((flags == 1, u16::from_be_bytes([head[6], head[7]]), data));
            if flags == 1 {
                return chunks;
            }
        }
    }

    /// Reads; returns the data and the chunks' kinds.
    pub fn read(&mut self, offset: u64, length: u32, flags: u16) -> (Vec<u8>, Vec<u16>) {
        let mut data = vec![0xee; length as usize];
        let mut kinds = Vec::new();
        for (_, kind, chunk) in self.ask(0, flags, offset, length) {
            let at = (u64::from_be_bytes(chunk[..8].try_into().unwrap()) - offset) as usize;
            match kind {
                1 => data[at..at + chunk.len() - 8].copy_from_slice(&chunk[8..]),
                2 => {
                    let hole = u32::from_be_bytes(chunk[8..].try_into().unwrap()) as usize;
                    data[at..at + hole].fill(0);
                }
                other => panic!("a chunk of kind {other}"),
            }
            kinds.push(kind);
        }
        (data, kinds)
    }
}

/// Returns what a chunk of kind 5 says: lengths and states.
fn states(chunk: &[u8]) -> Vec<(u32, u32)> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    chunk[4..].chunks(8).map(|it| (number(&it[..4]), number(&it[4..]))).collect()
}

#[test]
fn replies_come_in_chunks_that_say_what_the_protocol_says() {
    for time in ["fast", "real"] {
        let place = Place::new("sim:,scale=1/2048");
        let attached = place.attach(&["--nbd", "unix:socket", "--time", time]);
        let mut client = Structured::connect(&place.path("socket"), true);
        let mut plain = crate::client::Client::connect(&place.path("socket")).unwrap();
        let data = vec![0x5a; 128 << 10];
        assert_eq!(plain.ask(crate::client::WRITE, MIB, 128 << 10, &data).unwrap(), 0);
        // Small reads are one chunk of data, whatever is there.
        assert_eq!(client.read(0, 4096, 0), (vec![0; 4096], vec![1]));
        let (found, kinds) = client.read(MIB - (64 << 10), 256 << 10, 0);
        assert_eq!(kinds, [2, 1, 2]);
        assert!(found[64 << 10..192 << 10] == data && found[..64 << 10] == [0; 64 << 10]);
        let (again, kinds) = client.read(MIB - (64 << 10), 256 << 10, 4);
        assert_eq!(kinds, [1], "in one piece, as was asked");
        assert!(again == found);
        // Flush, and a write of zeros that is durable.
        assert_eq!(client.ask(3, 0, 0, 0), [(true, 0, Vec::new())]);
        assert_eq!(client.ask(6, 1, 0, 8192), [(true, 0, Vec::new())]);
        // What is allocated: in all, from the middle of a unit on, and one stretch alone.
        let status = client.ask(7, 0, MIB - 4096, 256 << 10);
        assert_eq!(status[0].1, 5);
        let held = 128 << 10;
        assert_eq!(states(&status[0].2), [(4096, 3), (held, 0), ((256 << 10) - held - 4096, 3)]);
        assert_eq!(states(&client.ask(7, 0, MIB + 512, 1024)[0].2), [(1024, 0)]);
        assert_eq!(states(&client.ask(7, 8, MIB - 4096, 256 << 10)[0].2), [(4096, 3)]);
        // Errors: a number, and no text.
        let size = client.size;
        let failed = |error: u32| [&error.to_be_bytes()[..], &[0; 2]].concat();
        for (kind, offset, length) in [
            (0, size, 4096),
            (0, 0, 0),
            (7, size - 4096, 8192),
            (7, 0, 0),
            (4, size, 4096),
            (9, 0, 1),
        ] {
            let chunks = client.ask(kind, 0, offset, length);
            assert_eq!(chunks, [(true, 1 << 15 | 1, failed(22))], "{kind} at {offset}");
        }
        // After a power cut a read says where it failed.
        place.done(&["power-cut", "disk.ssd"]);
        let chunks = client.ask(0, 0, MIB, 4096);
        let expected = [&failed(5)[..], &MIB.to_be_bytes()].concat();
        assert_eq!(chunks, [(true, 1 << 15 | 2, expected)]);
        assert_eq!(client.ask(7, 0, 0, 4096), [(true, 1 << 15 | 1, failed(5))]);
        attached.detach();
    }
}

#[test]
fn contexts_are_for_who_asked_for_chunks_and_for_one_export() {
    let place = Place::new("sim:,scale=1/2048");
    let attached = place.attach(&["--nbd", "unix:socket", "--time", "fast"]);
    let socket = place.path("socket");
    let invalid = (1u32 << 31) | 3;
    let mut client = Structured::greet(&socket);
    assert_eq!(client.option(10, &queries(&[b"base:allocation"]))[0].0, invalid, "no chunks yet");
    assert_eq!(client.option(8, b"data")[0].0, invalid);
    assert_eq!(client.option(8, &[])[0].0, 1);
    for queried in
        [&queries(&[])[..], &queries(&[b"base:"]), &queries(&[b"x:y", b"base:allocation"])]
    {
        let listed = client.option(9, queried);
        assert_eq!((listed.len(), listed[0].0), (2, 4), "{queried:?}");
    }
    assert_eq!(client.option(9, &queries(&[b"x:y"])).len(), 1);
    // A name space is no context to choose, and who then chooses nothing has none.
    assert_eq!(client.option(10, &queries(&[b"base:allocation"])).len(), 2);
    assert_eq!(client.option(10, &queries(&[b"base:"])).len(), 1);
    assert_eq!(client.option(7, &[0; 6]).last().unwrap().0, 1);
    assert_eq!(client.ask(7, 0, 0, 4096)[0].1, 1 << 15 | 1, "no context was chosen");
    // One that was chosen for the export by one name does not count under another.
    drop(client);
    let mut client = Structured::greet(&socket);
    client.option(8, &[]);
    assert_eq!(client.option(10, &queries(&[b"base:allocation"])).len(), 2);
    let by_name = [&4u32.to_be_bytes()[..], b"disk", &[0; 2]].concat();
    assert_eq!(client.option(7, &by_name).last().unwrap().0, 1);
    assert_eq!(client.ask(7, 0, 0, 4096)[0].1, 1 << 15 | 1);
    drop(client);
    attached.detach();
}
