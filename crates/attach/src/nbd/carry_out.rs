//! Execution of NBD requests on the engine.

use std::time::Instant;

use super::protocol::*;
use super::reply::Negotiated;
use super::request::Request;
use crate::engine::{Engine, Errno, Submitted, Time};

/// Carries out a request that arrived at `host_arrival` with `data`, and appends its reply to `output`. Returns the
/// request as submitted to the drive, which may not have answered yet; `None` if the drive is not involved or
/// the request failed.
pub(super) fn carry_out(
    engine: &Engine,
    negotiated: Negotiated,
    request: &Request,
    host_arrival: Instant,
    data: &[u8],
    output: &mut Vec<u8>,
) -> Option<Submitted> {
    let began = output.len();
    match try_to(engine, negotiated, request, host_arrival, data, output) {
        Ok(submitted) => submitted,
        Err(error) => {
            output.truncate(began);
            negotiated.failed(request, error, output);
            None
        }
    }
}

fn try_to(
    engine: &Engine,
    negotiated: Negotiated,
    request: &Request,
    host_arrival: Instant,
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
            return read(engine, negotiated, request, host_arrival, output).map(Some);
        }
        CMD_WRITE => {
            let fua = request.has(CMD_FLAG_FUA);
            if engine.time() == Time::Real && !engine.makes_durable(fua) {
                let submitted = engine.submit_write(host_arrival, offset, data.into(), fua);
                negotiated.done(request, output);
                return submitted.map(Some).map_err(map_no_space);
            }
            engine.write(host_arrival, offset, data, fua).map_err(map_no_space)?
        }
        CMD_FLUSH => engine.flush(host_arrival)?,
        CMD_TRIM if !request.has(CMD_FLAG_FUA) => {
            let submitted = engine.submit_trim(host_arrival, offset, length)?;
            negotiated.done(request, output);
            return Ok(Some(submitted));
        }
        CMD_TRIM => engine.trim(host_arrival, offset, length, false)?,
        CMD_WRITE_ZEROES => {
            let may_trim = !request.has(CMD_FLAG_NO_HOLE);
            engine.zero(host_arrival, offset, length, may_trim).map_err(map_no_space)?
        }
        CMD_BLOCK_STATUS if negotiated.has_allocation_context => {
            negotiated.allocation(request, &engine.extents(offset, length)?, output);
            return Ok(None);
        }
        _ => return Err(Errno::INVAL),
    };
    negotiated.done(request, output);
    if request.has(CMD_FLAG_FUA) && matches!(request.kind, CMD_TRIM | CMD_WRITE_ZEROES) {
        return Ok(Some(Submitted::Answered(engine.flush(host_arrival)?)));
    }
    Ok(Some(Submitted::Answered(answer)))
}

/// Submits a read, and appends its reply to `output`. In the reply to a large read, holes are not sent as zeros
/// if the client allows that.
fn read(
    engine: &Engine,
    negotiated: Negotiated,
    request: &Request,
    host_arrival: Instant,
    output: &mut Vec<u8>,
) -> Result<Submitted, Errno> {
    let (offset, length) = (request.offset, request.length as usize);
    if request.is_large() && negotiated.may_leave_out_holes(request) {
        let extents = engine.extents(offset, length as u64)?;
        let covered: u64 = extents.iter().map(|it| it.length).sum();
        if covered == length as u64 && extents.iter().any(|it| it.is_zero) {
            let mut data = vec![0; length];
            let submitted = engine.submit_read(host_arrival, offset, &mut data)?;
            negotiated.without_holes(request, &data, &extents, output);
            return Ok(submitted);
        }
    }
    output.extend(negotiated.before_data(request).bytes());
    let from = output.len();
    output.resize(from + length, 0);
    engine.submit_read(host_arrival, offset, &mut output[from..])
}

/// Turns `EINVAL`, for a write behind the end of the drive, into the protocol's `ENOSPC`.
fn map_no_space(error: Errno) -> Errno {
    if error == Errno::INVAL { Errno::NOSPC } else { error }
}
