//! Which saved drives are known to be what was written.

use std::fs::File;

/// What tells that a file is still the one that was found sound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sound(String);

#[cfg(target_os = "linux")]
impl Sound {
    /// The extended attribute that a file is marked with.
    const NAME: &str = "user.ssdlab.sound";

    /// How long ago a file must have been written last for a later write to have a later time: ticks of the kernel's
    /// clock are 10 ms at most.
    const TICK: std::time::Duration = std::time::Duration::from_millis(20);

    /// What `file` is: where in the file system, how long, and when it was written last.
    fn now(file: &File) -> std::io::Result<Sound> {
        use std::os::unix::fs::MetadataExt;
        let found = file.metadata()?;
        let (inode, length) = (found.ino(), found.len());
        Ok(Sound(format!("{inode} {length} {}.{:09}", found.mtime(), found.mtime_nsec())))
    }

    /// Returns true if `file` was marked, and was neither written nor copied since.
    pub(super) fn is_marked(file: &File) -> bool {
        let mut marked = [0; 128];
        let read = rustix::fs::fgetxattr(file, Sound::NAME, &mut marked[..]);
        let (Ok(length), Ok(now)) = (read, Sound::now(file)) else { return false };
        marked.get(..length) == Some(now.0.as_bytes())
    }

    /// Marks `file`, all of which was written here or checked. Where that cannot be done it is checked again by
    /// whoever opens it.
    pub(super) fn mark(file: &File) {
        let written = file.metadata().and_then(|found| found.modified());
        let Ok(written) = written else { return };
        let age = written.elapsed().unwrap_or_default();
        std::thread::sleep(Sound::TICK.saturating_sub(age));
        if let Ok(Sound(now)) = Sound::now(file) {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::fsetxattr(file, Sound::NAME, now.as_bytes(), flags);
        }
    }
}

/// Elsewhere none is: each is checked whenever it is opened.
#[cfg(not(target_os = "linux"))]
impl Sound {
    pub(super) fn is_marked(_: &File) -> bool {
        false
    }

    pub(super) fn mark(_: &File) {}
}
