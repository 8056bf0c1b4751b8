//! Constants of the NBD protocol, under its own names.

pub(super) const NBDMAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
pub(super) const IHAVEOPT: u64 = u64::from_be_bytes(*b"IHAVEOPT");

pub(super) const FLAG_FIXED_NEWSTYLE: u16 = 1;
pub(super) const FLAG_NO_ZEROES: u16 = 2;

pub(super) const OPT_EXPORT_NAME: u32 = 1;
pub(super) const OPT_ABORT: u32 = 2;
pub(super) const OPT_LIST: u32 = 3;
pub(super) const OPT_INFO: u32 = 6;
pub(super) const OPT_GO: u32 = 7;
pub(super) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(super) const OPT_LIST_META_CONTEXT: u32 = 9;
pub(super) const OPT_SET_META_CONTEXT: u32 = 10;

pub(super) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(super) const REP_ACK: u32 = 1;
pub(super) const REP_SERVER: u32 = 2;
pub(super) const REP_INFO: u32 = 3;
pub(super) const REP_META_CONTEXT: u32 = 4;
pub(super) const REP_ERR_UNSUP: u32 = 1 << 31 | 1;
pub(super) const REP_ERR_INVALID: u32 = 1 << 31 | 3;
pub(super) const REP_ERR_UNKNOWN: u32 = 1 << 31 | 6;
pub(super) const REP_ERR_TOO_BIG: u32 = 1 << 31 | 9;

pub(super) const INFO_EXPORT: u16 = 0;
pub(super) const INFO_BLOCK_SIZE: u16 = 3;

/// Transmission flags of the server: flags, flush, FUA, trim, write zeroes, multi-conn.
pub(super) const TRANSMISSION_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
/// Additional flag on a read-only drive.
pub(super) const TRANSMISSION_FLAG_READ_ONLY: u16 = 1 << 1;
/// Additional flag with structured replies: reads in one piece (DF).
pub(super) const TRANSMISSION_FLAG_DF: u16 = 1 << 7;

pub(super) const REQUEST: u32 = 0x2560_9513;
pub(super) const SIMPLE_REPLY: u32 = 0x6744_6698;
pub(super) const STRUCTURED_REPLY: u32 = 0x668e_33ef;

pub(super) const REPLY_FLAG_DONE: u16 = 1;
pub(super) const REPLY_NONE: u16 = 0;
pub(super) const REPLY_OFFSET_DATA: u16 = 1;
pub(super) const REPLY_OFFSET_HOLE: u16 = 2;
pub(super) const REPLY_BLOCK_STATUS: u16 = 5;
pub(super) const REPLY_ERROR: u16 = 1 << 15 | 1;
pub(super) const REPLY_ERROR_OFFSET: u16 = 1 << 15 | 2;

/// The only metadata context: allocation. The server chooses its number.
pub(super) const ALLOCATION: &[u8] = b"base:allocation";
pub(super) const ALLOCATION_ID: u32 = 1;
pub(super) const STATE_HOLE: u32 = 1;
pub(super) const STATE_ZERO: u32 = 2;

pub(super) const CMD_READ: u16 = 0;
pub(super) const CMD_WRITE: u16 = 1;
pub(super) const CMD_DISC: u16 = 2;
pub(super) const CMD_FLUSH: u16 = 3;
pub(super) const CMD_TRIM: u16 = 4;
pub(super) const CMD_WRITE_ZEROES: u16 = 6;
pub(super) const CMD_BLOCK_STATUS: u16 = 7;

pub(super) const CMD_FLAG_FUA: u16 = 1;
pub(super) const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub(super) const CMD_FLAG_DF: u16 = 1 << 2;
pub(super) const CMD_FLAG_REQ_ONE: u16 = 1 << 3;

/// Maximum bytes of data in a request: the size that every client may rely on.
pub(super) const PAYLOAD_MAX: u32 = 32 << 20;
