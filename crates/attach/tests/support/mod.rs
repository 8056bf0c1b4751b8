//! What tests of attached drives share: a small drive, and what it must hold.

use std::path::{Path, PathBuf};

use ssdlab_attach::image::Image;
use ssdlab_model::profile::{DEFAULT, Profile};

/// A directory of the test's own, in RAM where that is possible: making a disk durable hundreds of
/// times takes minutes, and proves nothing here.
pub fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    directory.expect("a directory")
}

/// A drive of 8 MiB with changes.
pub fn small_profile(changes: &[(&str, &str)]) -> Profile {
    let mut profile = Profile::named(DEFAULT).expect("the default profile");
    let small = [
        ("capacity.logical", "8M"),
        ("capacity.physical", "16M"),
        ("controller.unit_size", "4K"),
        ("flash.page_size", "8K"),
        ("flash.channels", "2"),
        ("flash.dies", "4"),
        ("flash.planes_per_die", "1"),
        ("flash.pages_per_shot", "3"),
        ("flash.pages_per_block", "24"),
        ("controller.write_buffer", "512K"),
    ];
    for (key, value) in small.iter().chain(changes) {
        profile.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    profile
}

/// The image of such a drive in `directory`.
pub fn small_image(directory: &Path, changes: &[(&str, &str)]) -> PathBuf {
    let path = directory.join("disk.ssd");
    Image::create(&path, &small_profile(changes), false).unwrap_or_else(|error| panic!("{error}"));
    path
}
