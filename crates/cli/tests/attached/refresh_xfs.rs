//! Refreshing files on xfs that exchanges ranges of files. Most tools are older than that, so the tests
//! set the feature themselves.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::refresh::{MIB, Scene, XG5, brings_it_back, text};
use crate::support::{Place, has_devices, has_tools, skipped, tool};

/// Returns true if xfs exchanges ranges here, on a file system that was told so; says why not otherwise.
pub(crate) fn has_exchange(test: &str) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|it| it.parse::<u32>().unwrap_or(0));
    let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if kernel < (6, 13) {
        skipped(test, "this kernel cannot exchange ranges safely");
    }
    kernel >= (6, 13) && has_devices(test) && has_tools(test, &["mkfs.xfs", "xfs_repair"])
}

/// Has a mounted xfs give up when its drive fails. As it comes it tries to write its metadata for ever, and a
/// freeze waits for that, together with everybody who syncs (the kernel's admin-guide/xfs, "Error
/// Handling"): nothing would end that but the drive's return.
pub(crate) fn gives_up_when_the_drive_fails(device: &Path) {
    let name = device.file_name().expect("a device has a name");
    let errors = Path::new("/sys/fs/xfs").join(name).join("error/metadata");
    for error in ["default", "EIO"] {
        std::fs::write(errors.join(error).join("max_retries"), "0").unwrap();
    }
}

/// CRC-32C (Castagnoli), bit by bit.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 & 0_u32.wrapping_sub(crc & 1))
        })
    })
}

/// Has xfs exchange ranges from the next mount on, or not any more, as `mkfs.xfs -i exchange=1` of later versions
/// does: the bit of `sb_features_incompat` in each superblock, and its checksum (fs/xfs/libxfs/
/// xfs_format.h).
fn set_exchange(device: &Path, is_allowed: bool) {
    const AT_FEATURES: usize = 216;
    const AT_CHECKSUM: usize = 224;
    let device = OpenOptions::new().read(true).write(true).open(device).unwrap();
    let read = |at: u64| {
        let mut sector = vec![0; 512];
        device.read_exact_at(&mut sector, at).unwrap();
        sector
    };
    let first = read(0);
    let number = |at: usize| u32::from_be_bytes(first[at..at + 4].try_into().unwrap());
    assert_eq!(&first[..4], b"XFSB");
    let (block, group, groups) = (number(4), number(84), number(88));
    for at in (0..u64::from(groups)).map(|it| it * u64::from(group) * u64::from(block)) {
        let mut sector = read(at);
        let feature = &mut sector[AT_FEATURES + 3];
        *feature = if is_allowed { *feature | 0x40 } else { *feature & !0x40 };
        sector[AT_CHECKSUM..AT_CHECKSUM + 4].fill(0);
        let sum = crc32c(&sector).to_le_bytes();
        sector[AT_CHECKSUM..AT_CHECKSUM + 4].copy_from_slice(&sum);
        device.write_all_at(&sector, at).unwrap();
    }
    device.sync_all().unwrap();
}

#[test]
fn checksums_are_those_of_castagnoli() {
    // RFC 3720, B.4: 32 bytes of zeros, and of ones.
    assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
}

/// A file on an xfs that exchanges ranges.
pub(crate) fn exchanging(place: &Place, length: u64) -> Scene<'_> {
    let scene = Scene::new(place, "xfs", length);
    scene.unmount();
    set_exchange(&scene.device(), true);
    scene.mount();
    scene
}

#[test]
fn a_scattered_file_on_xfs_is_in_order_again_and_not_rewritten_twice() {
    if !has_exchange("refresh on xfs") {
        return;
    }
    let place = Place::new(XG5);
    let mut scene = exchanging(&place, 32 * MIB);
    let summary = brings_it_back(&mut scene, &[], 5);
    assert_eq!(summary["plan"]["way"], "commit-range");
    assert_eq!(summary["freezes"], Value::Null);
    let before = scene.written();
    let again = scene.refresh(&["--yes"]);
    assert_eq!(again["rewrite"], serde_json::json!([]), "{again}");
    let yardstick = again["yardstick_bytes"].as_u64().unwrap();
    let written = scene.written() - before;
    assert!(written <= yardstick + MIB, "{written} bytes, {yardstick} of them the yardstick");
    scene.unmount();
    is_sound_xfs(&scene.device());
    scene.detach();
}

/// Has the file system checked, which is not mounted. Tools that are older than the feature look at
/// nothing that has it; so it is taken away meanwhile, which changes nothing else.
pub(crate) fn is_sound_xfs(device: &Path) {
    set_exchange(device, false);
    tool("xfs_repair", &["-n", text(device)]);
    set_exchange(device, true);
}
