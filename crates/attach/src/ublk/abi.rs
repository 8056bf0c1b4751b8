//! The ublk interface of linux/ublk_cmd.h, as far as it is used here. Numbers are in native byte order.

/// Path of the control device.
pub(super) const CONTROL: &str = "/dev/ublk-control";

/// Returns the code of a command as `ioctl` encodes it: `_IOWR('u', number, ..)`.
const fn command(number: u32, size: u32) -> u32 {
    3 << 30 | size << 16 | (b'u' as u32) << 8 | number
}

/// Bytes in a command to the control device (`ublksrv_ctrl_cmd`), and in one to a queue (`ublksrv_io_cmd`).
const CONTROL_SIZE: u32 = 32;
const IO_SIZE: u32 = 16;

pub(super) const ADD_DEVICE: u32 = command(0x04, CONTROL_SIZE);
pub(super) const DELETE_DEVICE: u32 = command(0x05, CONTROL_SIZE);
pub(super) const START_DEVICE: u32 = command(0x06, CONTROL_SIZE);
pub(super) const STOP_DEVICE: u32 = command(0x07, CONTROL_SIZE);
pub(super) const SET_PARAMETERS: u32 = command(0x08, CONTROL_SIZE);
pub(super) const FETCH: u32 = command(0x20, IO_SIZE);
pub(super) const COMMIT_AND_FETCH: u32 = command(0x21, IO_SIZE);

/// Flags of a device: commands are encoded as `ioctl` codes; data is copied by reads and writes of the queue's
/// device.
pub(super) const ENCODED: u64 = 1 << 6;
pub(super) const USER_COPY: u64 = 1 << 7;

pub(super) const READ: u32 = 0;
pub(super) const WRITE: u32 = 1;
pub(super) const FLUSH: u32 = 2;
pub(super) const DISCARD: u32 = 3;
pub(super) const WRITE_ZEROES: u32 = 5;

/// Flags of a request, beside its operation in the lowest byte.
pub(super) const FUA: u32 = 1 << 13;
pub(super) const NO_UNMAP: u32 = 1 << 15;

/// Attributes: the device has a write cache, and takes FUA.
pub(super) const CACHE_AND_FUA: u32 = 1 << 2 | 1 << 3;

/// Sets of parameters that are given: basic ones, and those of discards.
pub(super) const BASIC: u32 = 1;
pub(super) const DISCARDS: u32 = 1 << 1;

/// Returns the offset in the queue's device of the data of request `tag`.
pub(super) fn data_at(queue: u16, tag: u16) -> u64 {
    0x8000_0000 + (u64::from(queue) << 41) + (u64::from(tag) << 25)
}

/// `ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) pad0: u16,
    pub(super) max_io_bytes: u32,
    pub(super) id: u32,
    pub(super) server_pid: i32,
    pub(super) pad1: u32,
    pub(super) flags: u64,
    pub(super) server_flags: u64,
    pub(super) owner_uid: u32,
    pub(super) owner_gid: u32,
    pub(super) reserved: [u64; 2],
}

/// `ublk_params`, with `ublk_param_basic` and `ublk_param_discard`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parameters {
    pub(super) length: u32,
    pub(super) types: u32,
    pub(super) attributes: u32,
    pub(super) logical_shift: u8,
    pub(super) physical_shift: u8,
    pub(super) optimal_shift: u8,
    pub(super) minimal_shift: u8,
    pub(super) max_sectors: u32,
    pub(super) chunk_sectors: u32,
    pub(super) sectors: u64,
    pub(super) boundary_mask: u64,
    pub(super) discard_alignment: u32,
    pub(super) discard_granularity: u32,
    pub(super) max_discard_sectors: u32,
    pub(super) max_zeroes_sectors: u32,
    pub(super) max_discard_segments: u16,
    pub(super) reserved: u16,
    pub(super) end: u32,
}

/// `ublksrv_io_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    /// Operation and flags.
    pub(super) what: u32,
    pub(super) sectors: u32,
    pub(super) first: u64,
    pub(super) address: u64,
}

/// Returns the fields of `ublksrv_ctrl_cmd`.
pub(super) fn control_command(id: u32, address: u64, length: u16, data: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[0..4].copy_from_slice(&id.to_ne_bytes());
    // The command is for no queue.
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    bytes[6..8].copy_from_slice(&length.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes[16..24].copy_from_slice(&data.to_ne_bytes());
    bytes
}

/// Returns the fields of `ublksrv_io_cmd`.
pub(super) fn io_command(queue: u16, tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0..2].copy_from_slice(&queue.to_ne_bytes());
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_systems() {
        assert_eq!(size_of::<DeviceInfo>(), 64);
        assert_eq!(size_of::<Parameters>(), 64);
        assert_eq!(std::mem::offset_of!(Parameters, discard_alignment), 40);
        assert_eq!(size_of::<Descriptor>(), 24);
        // `UBLK_U_CMD_ADD_DEV` and `UBLK_U_IO_FETCH_REQ` as a C compiler computes them.
        assert_eq!((ADD_DEVICE, FETCH), (0xc020_7504, 0xc010_7520));
    }
}
