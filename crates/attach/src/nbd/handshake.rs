//! Negotiation: fixed newstyle, with GO, INFO, LIST, ABORT, EXPORT_NAME, STRUCTURED_REPLY and contexts.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::protocol::*;
use super::reply::Negotiated;
use super::{Stream, context};
use crate::engine::Engine;

/// Maximum bytes in an option; those that are supported are shorter.
const OPTION_MAX: u32 = 8192;

/// Maximum time for negotiation, so that slow or silent clients do not occupy connections.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of options that a client may send before it chooses an export.
const OPTIONS_MAX: u32 = 256;

fn read<const LENGTH: usize>(from: &mut impl Read) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A connection with a deadline for reads.
struct DeadlineStream<'a> {
    stream: &'a mut Stream,
    until: Instant,
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn invalid_data<T>() -> io::Result<T> {
    Err(io::ErrorKind::InvalidData.into())
}

/// Negotiates with a client. Returns the outcome; `None` if the client does not go on to requests.
///
/// # Errors
/// Returns an error if the connection breaks, or if the client violates the protocol or takes too long.
pub(super) fn negotiate(
    stream: &mut Stream,
    engine: &Engine,
    name: &str,
) -> io::Result<Option<Negotiated>> {
    let mut deadline_stream =
        DeadlineStream { stream, until: Instant::now() + NEGOTIATION_TIMEOUT };
    let negotiated = negotiate_options(&mut deadline_stream, engine, name)?;
    stream.set_read_timeout(None)?;
    Ok(negotiated)
}

fn negotiate_options(
    stream: &mut (impl Read + Write),
    engine: &Engine,
    name: &str,
) -> io::Result<Option<Negotiated>> {
    let mut hello = Vec::new();
    hello.extend(NBDMAGIC.to_be_bytes());
    hello.extend(IHAVEOPT.to_be_bytes());
    hello.extend((FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    stream.write_all(&hello)?;
    let flags = u32::from_be_bytes(read(stream)?);
    if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
        return invalid_data();
    }
    let no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
    let mut is_structured = false;
    // Export for which a context was selected; the selection counts for no other export.
    let mut chosen: Option<Vec<u8>> = None;
    for _ in 0..OPTIONS_MAX {
        if u64::from_be_bytes(read(stream)?) != IHAVEOPT {
            return invalid_data();
        }
        let option = u32::from_be_bytes(read(stream)?);
        let length = u32::from_be_bytes(read(stream)?);
        if length > OPTION_MAX {
            reply(stream, option, REP_ERR_TOO_BIG, &[])?;
            return invalid_data();
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match option {
            OPT_EXPORT_NAME => {
                // With EXPORT_NAME, closing the connection is the only way to refuse.
                if !is_export(&data, name) {
                    return invalid_data();
                }
                let mut answer = export(engine, is_structured);
                if !no_zeroes {
                    answer.extend([0; 124]);
                }
                stream.write_all(&answer)?;
                let has_allocation_context = chosen.as_deref() == Some(&data);
                return Ok(Some(Negotiated { is_structured, has_allocation_context }));
            }
            OPT_ABORT => {
                reply(stream, option, REP_ACK, &[])?;
                return Ok(None);
            }
            OPT_STRUCTURED_REPLY if data.is_empty() => {
                is_structured = true;
                reply(stream, option, REP_ACK, &[])?;
            }
            OPT_LIST_META_CONTEXT => {
                context::choose(stream, option, &data, name, is_structured)?;
            }
            OPT_SET_META_CONTEXT => {
                chosen = context::choose(stream, option, &data, name, is_structured)?;
            }
            OPT_LIST if data.is_empty() => {
                let mut server = (name.len() as u32).to_be_bytes().to_vec();
                server.extend(name.as_bytes());
                reply(stream, option, REP_SERVER, &server)?;
                reply(stream, option, REP_ACK, &[])?;
            }
            OPT_LIST | OPT_STRUCTURED_REPLY => reply(stream, option, REP_ERR_INVALID, &[])?,
            OPT_INFO | OPT_GO => {
                let answer = export(engine, is_structured);
                let is_known = information(stream, engine, &answer, name, option, &data)?;
                if is_known && option == OPT_GO {
                    let has_allocation_context =
                        chosen.as_deref() == requested_export(&data) && chosen.is_some();
                    return Ok(Some(Negotiated { is_structured, has_allocation_context }));
                }
            }
            _ => reply(stream, option, REP_ERR_UNSUP, &[])?,
        }
    }
    invalid_data()
}

pub(super) fn is_export(asked: &[u8], name: &str) -> bool {
    asked.is_empty() || asked == name.as_bytes()
}

/// Returns size and flags of the export, as they are sent.
fn export(engine: &Engine, is_structured: bool) -> Vec<u8> {
    let mut bytes = engine.capacity().to_be_bytes().to_vec();
    let structured = if is_structured { TRANSMISSION_FLAG_DF } else { 0 };
    let read_only = if engine.is_read_only() { TRANSMISSION_FLAG_READ_ONLY } else { 0 };
    bytes.extend((TRANSMISSION_FLAGS | structured | read_only).to_be_bytes());
    bytes
}

/// Answers GO or INFO; returns true if the export exists.
fn information(
    stream: &mut impl Write,
    engine: &Engine,
    export: &[u8],
    name: &str,
    option: u32,
    data: &[u8],
) -> io::Result<bool> {
    let Some(asked) = requested_export(data) else {
        reply(stream, option, REP_ERR_INVALID, &[])?;
        return Ok(false);
    };
    if !is_export(asked, name) {
        reply(stream, option, REP_ERR_UNKNOWN, &[])?;
        return Ok(false);
    }
    let mut info = INFO_EXPORT.to_be_bytes().to_vec();
    info.extend(export);
    reply(stream, option, REP_INFO, &info)?;
    let mut info = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
    for size in [1, engine.unit().clamp(512, 1 << 16) as u32, PAYLOAD_MAX] {
        info.extend(size.to_be_bytes());
    }
    reply(stream, option, REP_INFO, &info)?;
    reply(stream, option, REP_ACK, &[])?;
    Ok(true)
}

/// Returns the export that GO or INFO asks for; `None` if the option is malformed.
fn requested_export(data: &[u8]) -> Option<&[u8]> {
    let length = u32::from_be_bytes(data.get(..4)?.try_into().ok()?) as usize;
    let name = data.get(4..4usize.checked_add(length)?)?;
    let rest = &data[4 + length..];
    let count = u16::from_be_bytes(rest.get(..2)?.try_into().ok()?) as usize;
    (rest.len() == 2 + 2 * count).then_some(name)
}

pub(super) fn reply(
    stream: &mut impl Write,
    option: u32,
    kind: u32,
    data: &[u8],
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend(OPTION_REPLY.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}
