//! An NBD client that costs little: 4 KiB requests at a depth, over a Unix socket, one thread, and one
//! system call for all requests that may be sent at a time. `crates/attach/lateness` measures with it,
//! since fio takes a whole processor.
//!
//! Usage: light_client SOCKET randread|randwrite|randrw|fill DEPTH SECONDS MEBIBYTES; prints requests a
//! second. `fill` writes all in order, once, whatever the seconds.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of a request, and of one when filling.
const SMALL: usize = 4096;
const LARGE: usize = 1 << 20;

/// What a request for 4 KiB begins with (`proto.md` of the NetworkBlockDevice project).
const REQUEST: u32 = 0x2560_9513;
const READ: u16 = 0;
const WRITE: u16 = 1;

struct Client {
    stream: UnixStream,
    output: Vec<u8>,
    input: Vec<u8>,
    from: usize,
    until: usize,
    /// Whether each of the requests under way reads.
    reads: Vec<bool>,
    free: Vec<usize>,
    random: u64,
}

impl Client {
    fn connect(path: &str, depth: usize) -> io::Result<Client> {
        let mut stream = UnixStream::connect(path)?;
        stream.read_exact(&mut [0; 18])?;
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend([0, 0, 0, 7, 0, 0, 0, 6]);
        hello.extend([0; 6]);
        stream.write_all(&hello)?;
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head)?;
            let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|it| head[at + it]));
            stream.read_exact(&mut vec![0; number(16) as usize])?;
            match number(12) {
                1 => break,
                3 => {}
                _ => return Err(io::Error::other("the server refuses")),
            }
        }
        Ok(Client {
            stream,
            output: Vec::new(),
            input: vec![0; 1 << 18],
            from: 0,
            until: 0,
            reads: vec![false; depth],
            free: (0..depth).collect(),
            random: 0x9e37_79b9_7f4a_7c15,
        })
    }

    /// The next of Marsaglia's xorshift generator.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn ask(&mut self, slot: usize, kind: u16, offset: u64, length: usize) {
        self.reads[slot] = kind == READ;
        self.output.extend(REQUEST.to_be_bytes());
        self.output.extend(0u16.to_be_bytes());
        self.output.extend(kind.to_be_bytes());
        self.output.extend((slot as u64).to_be_bytes());
        self.output.extend(offset.to_be_bytes());
        self.output.extend((length as u32).to_be_bytes());
        if kind == WRITE {
            let from = self.output.len();
            self.output.resize(from + length, 0x5a);
            self.output[from..from + 8].copy_from_slice(&offset.to_be_bytes());
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Waits for replies, and takes all that are there. Returns how many.
    fn receive(&mut self) -> io::Result<usize> {
        let mut replies = 0;
        loop {
            let count = self.stream.read(&mut self.input[self.until..])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.until += count;
            while self.until - self.from >= 16 {
                let head = &self.input[self.from..self.from + 16];
                if head[4..8] != [0; 4] {
                    return Err(io::Error::other("a request failed"));
                }
                let slot = usize::from(head[15]) | usize::from(head[14]) << 8;
                let length = if self.reads[slot] { 16 + SMALL } else { 16 };
                if self.until - self.from < length {
                    break;
                }
                self.from += length;
                self.free.push(slot);
                replies += 1;
            }
            self.input.copy_within(self.from..self.until, 0);
            (self.from, self.until) = (0, self.until - self.from);
            if replies > 0 {
                return Ok(replies);
            }
        }
    }

    /// Asks for `next` as long as it names requests; returns how many were answered.
    fn work(
        &mut self,
        mut next: impl FnMut(&mut Client) -> Option<(u16, u64, usize)>,
    ) -> io::Result<u64> {
        let (depth, mut answered) = (self.reads.len(), 0);
        loop {
            while let Some(slot) = self.free.pop() {
                let Some((kind, offset, length)) = next(self) else {
                    self.free.push(slot);
                    break;
                };
                self.ask(slot, kind, offset, length);
            }
            if self.free.len() == depth {
                return Ok(answered);
            }
            self.send()?;
            answered += self.receive()? as u64;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, work, depth, seconds, size] = &arguments[..] else {
        return Err(
            "light_client SOCKET randread|randwrite|randrw|fill DEPTH SECONDS MEBIBYTES".into()
        );
    };
    let (depth, size) = (depth.parse::<usize>()?, size.parse::<u64>()? << 20);
    let mut client = Client::connect(socket, depth)?;
    if work == "fill" {
        let mut at = 0;
        client.work(|_| {
            at += LARGE as u64;
            (at <= size).then(|| (WRITE, at - LARGE as u64, LARGE))
        })?;
        return Ok(());
    }
    let shares = match work.as_str() {
        "randread" => 0,
        "randwrite" => 2,
        "randrw" => 1,
        _ => return Err(format!("{work}: randread, randwrite, randrw or fill").into()),
    };
    let (began, lasts) = (Instant::now(), Duration::from_secs_f64(seconds.parse()?));
    let answered = client.work(|client| {
        let drawn = client.draw();
        let kind = if (drawn >> 60) % 2 < shares { WRITE } else { READ };
        let offset = (drawn >> 8) % (size / SMALL as u64) * SMALL as u64;
        (began.elapsed() < lasts).then_some((kind, offset, SMALL))
    })?;
    println!("{:.0}", answered as f64 / began.elapsed().as_secs_f64());
    Ok(())
}
