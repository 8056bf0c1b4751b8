//! Trees of files: a generated one with the size of the published source tree, or the contents of an archive.

use std::path::Path;
use std::process::Command;

use ssdlab_units::ByteLength;
use statrs::distribution::{ContinuousCDF, LogNormal};

use crate::error::LabError;

/// Number of entries and bytes of the published tree: a kernel, 77.2 MB as tar.xz.
pub(super) const ENTRIES: u32 = 47_854;
pub(super) const BYTES: u64 = 513_700_000;

/// Number of files per directory in a kernel's tree: one entry in 16 is a directory.
const FILES_PER_DIRECTORY: u32 = 15;

/// Standard deviation of the logarithm of the sizes of source files: the median of a kernel's files is about
/// 4.5 KB and their mean 11.5 KB.
const SPREAD: f64 = 1.37;

/// One file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path below the top directory. Directories come before their contents.
    pub(super) path: String,
    /// Length of a file; `None` for a directory.
    pub(super) length: Option<ByteLength>,
}

/// A tree, in the order in which it is unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) entries: Vec<Entry>,
}

impl Tree {
    /// Returns a generated tree of this number of entries, one sixteenth of them directories, with files of
    /// approximately lognormal sizes that add up to `bytes`.
    pub(super) fn synthetic(entries: u32, bytes: ByteLength, seed: u64) -> Tree {
        let directories = (entries / (FILES_PER_DIRECTORY + 1)).max(1);
        let files = entries.saturating_sub(directories).max(1);
        let mut random = SplitMix64(seed);
        let sizes = sizes(files, bytes, &mut random);
        let mut paths: Vec<(String, u32)> = vec![("tree".to_owned(), 0)];
        for number in 1..directories {
            // The parent is one of the directories so far, with a limited depth: kernels have up to nine
            // levels.
            let parent = loop {
                let candidate = &paths[random.below(paths.len() as u64) as usize];
                if candidate.1 < 8 {
                    break candidate.clone();
                }
            };
            paths.push((format!("{}/directory{number}", parent.0), parent.1 + 1));
        }
        paths.sort();
        let mut made = Tree::default();
        let mut left = sizes.into_iter().enumerate();
        for (index, (path, _)) in paths.iter().enumerate() {
            made.entries.push(Entry { path: path.clone(), length: None });
            // The remaining files are spread over the remaining directories, some of which get many.
            let remaining = (paths.len() - index) as u64;
            let share = if remaining == 1 {
                u64::MAX
            } else {
                let mean = left.len() as u64 / remaining;
                random.below(2 * mean + 1)
            };
            for (number, length) in left.by_ref().take(share.min(1 << 32) as usize) {
                let path = format!("{path}/source{number}.c");
                made.entries.push(Entry { path, length: Some(ByteLength::new(length)) });
            }
        }
        made
    }

    /// Returns the tree of an archive that `tar` can read.
    pub(super) fn of_archive(archive: &Path) -> Result<Tree, LabError> {
        let failed = |source| LabError::Read { path: archive.to_owned(), source };
        let listed = Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "--quoting-style=literal", "--file"])
            .arg(archive)
            .env("LC_ALL", "C")
            .output()
            .map_err(failed)?;
        if !listed.status.success() {
            let why = String::from_utf8_lossy(&listed.stderr).trim().to_owned();
            return Err(failed(std::io::Error::other(why)));
        }
        let text = String::from_utf8_lossy(&listed.stdout);
        let mut tree = Tree::default();
        for line in text.lines() {
            let entry = parse_line(line).ok_or_else(|| {
                failed(std::io::Error::other(format!("tar lists what cannot be read: {line}")))
            })?;
            tree.entries.extend(entry);
        }
        if tree.entries.is_empty() {
            return Err(failed(std::io::Error::other("the archive holds nothing")));
        }
        Ok(tree)
    }

    /// Returns the number of files and directories.
    pub(super) fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns the bytes of all files.
    pub(super) fn length(&self) -> ByteLength {
        self.entries.iter().filter_map(|entry| entry.length).sum()
    }
}

/// Parses a line of `tar --list --verbose`; `Some(None)` for links and devices, which hold no data.
#[allow(clippy::option_option)]
fn parse_line(line: &str) -> Option<Option<Entry>> {
    let mut fields = line.split_ascii_whitespace();
    let mode = fields.next()?;
    let length: u64 = fields.nth(1)?.parse().ok()?;
    let time = fields.nth(1)?;
    let (_, name) = line.split_once(&format!(" {time} "))?;
    let path = name.trim_end_matches('/').trim_start_matches("./").to_owned();
    if path.is_empty() || path == "." {
        return Some(None);
    }
    Some(match mode.as_bytes().first()? {
        b'd' => Some(Entry { path, length: None }),
        b'-' => Some(Entry { path, length: Some(ByteLength::new(length)) }),
        _ => None,
    })
}

/// Returns the sizes of files: quantiles of a lognormal distribution in random order, scaled to add up to
/// `bytes`.
fn sizes(files: u32, bytes: ByteLength, random: &mut SplitMix64) -> Vec<u64> {
    let distribution = LogNormal::new(0.0, SPREAD).expect("a spread above 0");
    let quantile =
        |index: u32| distribution.inverse_cdf((f64::from(index) + 0.5) / f64::from(files));
    let raw: Vec<f64> = (0..files).map(quantile).collect();
    let scale = bytes.bytes() as f64 / raw.iter().sum::<f64>();
    let mut sizes: Vec<u64> = raw.iter().map(|size| (size * scale).round() as u64).collect();
    // The largest file gets the rounding error.
    let sum: u64 = sizes.iter().sum();
    let last = sizes.last_mut().expect("some file");
    *last = (*last + bytes.bytes()).saturating_sub(sum);
    for index in (1..sizes.len()).rev() {
        sizes.swap(index, random.below(index as u64 + 1) as usize);
    }
    sizes
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014): the same numbers on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; the bias of one part in 2^40 does not matter here.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_made_up_tree_has_the_published_counts_and_directories_come_first() {
        let tree = Tree::synthetic(ENTRIES, ByteLength::new(BYTES), 1);
        assert_eq!((tree.count(), tree.length().bytes()), (u64::from(ENTRIES), BYTES));
        let mut there = HashSet::new();
        for entry in &tree.entries {
            if let Some((parent, _)) = entry.path.rsplit_once('/') {
                assert!(there.contains(parent), "{} before {parent}", entry.path);
            }
            if entry.length.is_none() {
                there.insert(entry.path.clone());
            }
        }
        let mut sizes: Vec<u64> =
            tree.entries.iter().filter_map(|entry| Some(entry.length?.bytes())).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((4_000..5_500).contains(&median), "{median}");
        assert_eq!(tree, Tree::synthetic(ENTRIES, ByteLength::new(BYTES), 1));
        assert_ne!(tree, Tree::synthetic(ENTRIES, ByteLength::new(BYTES), 2));
    }

    #[test]
    fn small_trees_can_be_made_up_too() {
        for entries in [1, 2, 16, 17, 100] {
            let tree = Tree::synthetic(entries, ByteLength::new(1000), 1);
            assert_eq!(tree.length().bytes(), 1000);
            assert_eq!(tree.count(), u64::from(entries.max(2)));
        }
    }

    #[test]
    fn an_archive_is_read_as_tar_lists_it() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        std::fs::create_dir_all(top.join("sub dir")).unwrap();
        std::fs::write(top.join("sub dir/a file"), "12345").unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        let archive = place.path().join("it.tar");
        let mut make = Command::new("tar");
        make.arg("-cf").arg(&archive).arg("-C").arg(place.path()).arg("top");
        assert!(make.status().unwrap().success());
        let tree = Tree::of_archive(&archive).unwrap();
        let found: Vec<(&str, Option<u64>)> = (tree.entries.iter())
            .map(|entry| (&*entry.path, entry.length.map(ByteLength::bytes)))
            .collect();
        let mut expected =
            vec![("top", None), ("top/sub dir", None), ("top/sub dir/a file", Some(5))];
        expected.sort_unstable();
        let mut sorted = found;
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        std::fs::write(&archive, "no archive").unwrap();
        assert!(Tree::of_archive(&archive).is_err());
        assert!(Tree::of_archive(&place.path().join("nosuch.tar")).is_err());
    }
}
