//! Metadata contexts: the options LIST_META_CONTEXT and SET_META_CONTEXT. The only context is
//! `base:allocation`.

use std::io::{self, Write};

use super::handshake::{is_export, reply};
use super::protocol::*;

/// Takes a 32-bit number from the front of `rest`.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*bytes))
}

/// Takes a string from the front of `rest`, which begins with its length.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(rest)? as usize;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

/// Decodes such an option: the name of the export, and the queries. `None` if it is malformed.
fn decode(mut data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let name = text(&mut data)?;
    let count = number(&mut data)?;
    let queries = (0..count).map(|_| text(&mut data)).collect::<Option<Vec<_>>>()?;
    data.is_empty().then_some((name, queries))
}

/// Answers one of these options. Returns the export for which the context was selected; `None` if it was not.
///
/// # Errors
/// Returns an error if the connection breaks.
pub(super) fn choose(
    stream: &mut impl Write,
    option: u32,
    data: &[u8],
    name: &str,
    is_structured: bool,
) -> io::Result<Option<Vec<u8>>> {
    let Some((asked, queries)) = decode(data).filter(|_| is_structured) else {
        reply(stream, option, REP_ERR_INVALID, &[])?;
        return Ok(None);
    };
    if !is_export(asked, name) {
        reply(stream, option, REP_ERR_UNKNOWN, &[])?;
        return Ok(None);
    }
    let lists = option == OPT_LIST_META_CONTEXT;
    // In a list request, no query means all contexts, and a name space all contexts in it.
    let is_listed = |query: &&[u8]| lists && *query == b"base:";
    let is_meant = queries.iter().any(|query| *query == ALLOCATION || is_listed(query))
        || lists && queries.is_empty();
    if is_meant {
        let mut context = ALLOCATION_ID.to_be_bytes().to_vec();
        context.extend(ALLOCATION);
        reply(stream, option, REP_META_CONTEXT, &context)?;
    }
    reply(stream, option, REP_ACK, &[])?;
    Ok((is_meant && !lists).then(|| asked.to_vec()))
}
