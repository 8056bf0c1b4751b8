//! Obstacles to rewriting a file: its attributes, its use as swap, or its extents.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ssdlab_blockdev::mounts::swaps;
use ssdlab_units::ByteLength;

use super::{Consents, RewriteMethod};
use crate::extents::{Content, Extent};
use crate::window::Span;
use crate::{DriveError, io, refused, unsupported};

/// Attributes of files (`FS_*_FL`, linux/fs.h).
const FLAG_IMMUTABLE: u32 = 0x10;
const FLAG_APPEND: u32 = 0x20;
const FLAG_ENCRYPTED: u32 = 0x800;
pub(super) const FLAG_JOURNAL_DATA: u32 = 0x4000;
const FLAG_VERITY: u32 = 0x10_0000;

/// Returns an error if the attributes of the file forbid a rewrite.
pub(super) fn refuse_flags(path: &Path, flags: u32) -> Result<(), DriveError> {
    let shown = path.display();
    let refuse = |why: &str| Err(refused(format!("{shown} {why}; nothing was changed")));
    if flags & FLAG_ENCRYPTED != 0 {
        return refuse(
            "is encrypted by its file system, which moves no blocks of such files; replace it by a \
             copy instead",
        );
    }
    if flags & FLAG_VERITY != 0 {
        return refuse("is sealed (fs-verity)");
    }
    if flags & FLAG_IMMUTABLE != 0 {
        return refuse("is immutable (chattr -i clears that)");
    }
    if flags & FLAG_APPEND != 0 {
        return refuse("is append-only (chattr -a clears that)");
    }
    Ok(())
}

/// Returns an error for active swap: the kernel writes to a swap file by its place on the device, past
/// its file system.
pub(super) fn refuse_swap(path: &Path, file: &File) -> Result<(), DriveError> {
    let ours = file.metadata().map_err(|error| io("cannot examine the file", error))?;
    let names = swaps().map_err(|error| io("cannot read the list of active swap", error))?;
    for name in names {
        let Ok(theirs) = fs::metadata(name) else { continue };
        let is_same = (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino())
            || (theirs.file_type().is_block_device() && theirs.rdev() == ours.rdev());
        if is_same {
            return Err(refused(format!(
                "{} is in use as swap, which the kernel writes without the file system; run \
                 swapoff first; nothing was changed",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Returns an error if the extents need a consent that the user has not given, or if there is no data to
/// rewrite. Returns notes for the user otherwise.
pub(super) fn refuse_extents(
    path: &Path,
    extents: &[Extent],
    length: u64,
    method: RewriteMethod,
    consents: Consents,
) -> Result<Vec<String>, DriveError> {
    let shown = path.display();
    let mut notes = Vec::new();
    let bytes = |fits: &dyn Fn(&Extent) -> bool| -> u64 {
        extents.iter().filter(|it| fits(it)).map(|it| it.span.length).sum()
    };
    let shared = bytes(&|it| it.is_shared);
    // A rewrite in place leaves all blocks where they are, and shared ones stay shared.
    if shared > 0 && method.is_live() {
        if !consents.shared {
            return Err(refused(format!(
                "{shown} shares {} with snapshots or copies (reflinks); a rewrite would take as \
                 much additional space. --shared allows that; nothing was changed",
                ByteLength::new(shared)
            )));
        }
        notes.push(format!("{} will not be shared any more.", ByteLength::new(shared)));
    }
    let covered: u64 = extents
        .iter()
        .filter_map(|it| it.span.overlap(Span::new(0, length)))
        .map(|it| it.length)
        .sum();
    let unwritten = bytes(&|it| it.content == Content::Unwritten);
    let holes = length - covered;
    if holes > 0 {
        let holes = ByteLength::new(holes);
        if !consents.sparse {
            return Err(refused(format!(
                "{shown} is sparse: {holes} of it are holes. --sparse refreshes the data between \
                 them and keeps the holes; nothing was changed"
            )));
        }
        notes.push(format!("{holes} of holes stay holes."));
    }
    if unwritten > 0 {
        notes.push(format!("{} of unwritten extents are left out.", ByteLength::new(unwritten)));
    }
    let encoded = bytes(&|it| it.content == Content::Encoded);
    if encoded > 0 {
        notes.push(format!("{} of compressed data are left out.", ByteLength::new(encoded)));
    }
    if bytes(&|it| it.content == Content::Data) == 0 {
        return Err(unsupported(format!(
            "{shown} has no data of its own on the device: it is compressed, kept within the \
             metadata, or was never written; nothing was changed"
        )));
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn attributes_that_forbid_it_are_named() {
        let path = Path::new("/some/file");
        for (flags, words) in [
            (FLAG_ENCRYPTED, "encrypted"),
            (FLAG_VERITY, "sealed"),
            (FLAG_IMMUTABLE, "immutable"),
            (FLAG_APPEND, "append-only"),
        ] {
            let error = refuse_flags(path, flags).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains("nothing was changed"), "{error}");
        }
        // Extents, no atime, no dump, compressed by request: no obstacle.
        assert!(refuse_flags(path, 0x8_0000 | 0x80 | 0x40 | 0x4).is_ok());
    }

    fn extent(offset: u64, length: u64, content: Content, is_shared: bool) -> Extent {
        Extent { span: Span::new(offset, length), physical: offset, content, is_shared }
    }

    #[test]
    fn shared_and_sparse_files_are_refused_unless_asked_for() {
        let path = Path::new("/some/file");
        let shared = [extent(0, 100, Content::Data, true)];
        let nothing = Consents::default();
        let everything = Consents { shared: true, sparse: true, frozen: false };
        let refuse = |extents: &[Extent], method, consents| {
            refuse_extents(path, extents, 100, method, consents).map_err(|error| error.to_string())
        };
        assert!(
            refuse(&shared, RewriteMethod::Defragment, nothing).unwrap_err().contains("--shared")
        );
        assert!(refuse(&shared, RewriteMethod::Defragment, everything).is_ok());
        assert!(refuse(&shared, RewriteMethod::Frozen, nothing).is_ok(), "they stay shared");
        let sparse = [extent(0, 40, Content::Data, false), extent(60, 40, Content::Data, false)];
        assert!(
            refuse(&sparse, RewriteMethod::MoveExtents, nothing).unwrap_err().contains("sparse")
        );
        assert!(
            refuse(&sparse, RewriteMethod::MoveExtents, everything).unwrap()[0]
                .contains("stay holes")
        );
        let encoded = [extent(0, 100, Content::Encoded, false)];
        assert!(
            refuse(&encoded, RewriteMethod::Defragment, nothing)
                .unwrap_err()
                .contains("compressed")
        );
    }
}
