//! An NBD client of the tests' own: several requests under way on one connection.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection in the transmission phase.
pub struct Client {
    stream: UnixStream,
    pub size: u64,
}

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;

fn read<const LENGTH: usize>(from: &mut impl Read) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Client {
    /// Connects and negotiates. A server that has as many clients as it takes hangs up; it is asked
    /// again until some of them are gone.
    pub fn connect(socket: &Path) -> io::Result<Client> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match Client::connect_once(socket) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::UnexpectedEof
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::BrokenPipe
                    ) && Instant::now() < until =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                outcome => return outcome,
            }
        }
    }

    fn connect_once(socket: &Path) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        assert_eq!(read(&mut stream)?, *b"NBDMAGICIHAVEOPT");
        let _flags: [u8; 2] = read(&mut stream)?;
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(7u32.to_be_bytes());
        hello.extend(6u32.to_be_bytes());
        hello.extend([0; 6]);
        stream.write_all(&hello)?;
        let mut size = 0;
        loop {
            let head: [u8; 20] = read(&mut stream)?;
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            let mut data = vec![0; word(16) as usize];
            stream.read_exact(&mut data)?;
            match word(12) {
                1 => return Ok(Client { stream, size }),
                3 if data[..2] == [0, 0] => {
                    size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                }
                3 => {}
                other => panic!("the server answers {other:#x}"),
            }
        }
    }

    /// Sends a request.
    pub fn send(
        &mut self,
        kind: u16,
        cookie: u64,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> io::Result<()> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(0u16.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// Waits for a reply: its cookie and error. Data of reads follows; see [`Client::data`].
    pub fn reply(&mut self) -> io::Result<(u64, u32)> {
        let head: [u8; 16] = read(&mut self.stream)?;
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(head[8..].try_into().unwrap()), error))
    }

    pub fn data(&mut self, data: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(data)
    }

    /// One request, and its reply.
    pub fn ask(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<u32> {
        self.send(kind, 1, offset, length, data)?;
        Ok(self.reply()?.1)
    }

    /// Reads.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<u32> {
        let error = self.ask(READ, offset, data.len() as u32, &[])?;
        if error == 0 {
            self.data(data)?;
        }
        Ok(error)
    }
}
