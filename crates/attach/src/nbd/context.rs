//! Contexts that a client may choose, so that it can ask what is allocated: the options
//! LIST_META_CONTEXT and SET_META_CONTEXT. There is one, `base:allocation`.

use std::io::{self, Write};

use super::handshake::{is_export, reply};
use super::protocol::*;

/// Takes a number from the front.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*bytes))
}

/// Takes a text from the front, which begins with its length.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(rest)? as usize;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

/// The name of the export in such an option, and its queries, if it is well formed.
fn decode(mut data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let name = text(&mut data)?;
    let count = number(&mut data)?;
    let queries = (0..count).map(|_| text(&mut data)).collect::<Option<Vec<_>>>()?;
    data.is_empty().then_some((name, queries))
}

/// Answers one of these options. Returns the name of the export that the context was chosen for, if it
/// was.
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
    // To list, nothing stands for all, and a name space for all that is in it.
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
