//! Execution of NBD requests on the engine.

use std::time::Instant;

use super::protocol::*;
use super::reply::Agreed;
use super::request::Request;
use crate::engine::{Engine, Errno, Submitted, Time};

/// Carries out a request that arrived at `came` with `data`, and appends its reply to `output`. Returns the
/// request as submitted to the drive, which may not have answered yet; `None` if the drive is not involved or
/// the request failed.
pub(super) fn carry_out(
    engine: &Engine,
    agreed: Agreed,
    request: &Request,
    came: Instant,
    data: &[u8],
    output: &mut Vec<u8>,
) -> Option<Submitted> {
    let began = output.len();
    match try_to(engine, agreed, request, came, data, output) {
        Ok(submitted) => submitted,
        Err(error) => {
            output.truncate(began);
            agreed.failed(request, error, output);
            None
        }
    }
}

fn try_to(
    engine: &Engine,
    agreed: Agreed,
    request: &Request,
    came: Instant,
    data: &[u8],
    output: &mut Vec<u8>,
) -> Result<Option<Submitted>, Errno> {
    let (offset, length) = (request.offset, u64::from(request.length));
    if request.length == 0 && request.kind != CMD_FLUSH {
        return Err(Errno::INVAL);
    }
    let answer = match request.kind {
        CMD_READ => {
            if request.length > PAYLOAD_MAX {
                return Err(Errno::INVAL);
            }
            return read(engine, agreed, request, came, output).map(Some);
        }
        CMD_WRITE => {
            let fua = request.has(CMD_FLAG_FUA);
            if engine.time() == Time::Real && !engine.makes_durable(fua) {
                let submitted = engine.submit_write(came, offset, data.into(), fua);
                agreed.done(request, output);
                return submitted.map(Some).map_err(no_space);
            }
            engine.write(came, offset, data, fua).map_err(no_space)?
        }
        CMD_FLUSH => engine.flush(came)?,
        CMD_TRIM if !request.has(CMD_FLAG_FUA) => {
            let submitted = engine.submit_trim(came, offset, length)?;
            agreed.done(request, output);
            return Ok(Some(submitted));
        }
        CMD_TRIM => engine.trim(came, offset, length, false)?,
        CMD_WRITE_ZEROES => {
            let may_trim = !request.has(CMD_FLAG_NO_HOLE);
            engine.zero(came, offset, length, may_trim).map_err(no_space)?
        }
        CMD_BLOCK_STATUS if agreed.tells_allocation => {
            agreed.allocation(request, &engine.extents(offset, length)?, output);
            return Ok(None);
        }
        _ => return Err(Errno::INVAL),
    };
    agreed.done(request, output);
    if request.has(CMD_FLAG_FUA) && matches!(request.kind, CMD_TRIM | CMD_WRITE_ZEROES) {
        return Ok(Some(Submitted::Answered(engine.flush(came)?)));
    }
    Ok(Some(Submitted::Answered(answer)))
}

/// Submits a read, and appends its reply to `output`. In the reply to a large read, holes are not sent as zeros
/// if the client allows that.
fn read(
    engine: &Engine,
    agreed: Agreed,
    request: &Request,
    came: Instant,
    output: &mut Vec<u8>,
) -> Result<Submitted, Errno> {
    let (offset, length) = (request.offset, request.length as usize);
    if request.is_large() && agreed.may_leave_out_holes(request) {
        let extents = engine.extents(offset, length as u64)?;
        let covered: u64 = extents.iter().map(|it| it.length).sum();
        if covered == length as u64 && extents.iter().any(|it| it.is_zero) {
            let mut data = vec![0; length];
            let submitted = engine.submit_read(came, offset, &mut data)?;
            agreed.without_holes(request, &data, &extents, output);
            return Ok(submitted);
        }
    }
    output.extend(agreed.before_data(request).bytes());
    let from = output.len();
    output.resize(from + length, 0);
    engine.submit_read(came, offset, &mut output[from..])
}

/// Turns `EINVAL`, for a write behind the end of the drive, into the protocol's `ENOSPC`.
fn no_space(error: Errno) -> Errno {
    if error == Errno::INVAL { Errno::NOSPC } else { error }
}
