//! Which saved drives are known to be what was written.

use std::fs::File;

/// A file as it was at one moment: where in the file system, how long, and when it was written last. A mark that
/// names the same is of the same content.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sound(String);

#[cfg(target_os = "linux")]
impl Sound {
    /// The extended attribute that a file is marked with.
    const NAME: &str = "user.ssdlab.sound";

    /// How long ago a file must have been written last for a later write to have a later time: ticks of the kernel's
    /// clock are 10 ms at most.
    const TICK: std::time::Duration = std::time::Duration::from_millis(20);

    /// Returns what `file` is now; nothing where the file system does not count time finely enough.
    pub(super) fn of(file: &File) -> Option<Sound> {
        use std::os::unix::fs::MetadataExt;
        let found = file.metadata().ok()?;
        let (inode, length, nanoseconds) = (found.ino(), found.len(), found.mtime_nsec());
        let state = format!("{inode} {length} {}.{nanoseconds:09}", found.mtime());
        (nanoseconds != 0).then_some(Sound(state))
    }

    fn mark_of(file: &File) -> Option<String> {
        let mut marked = [0; 128];
        let length = rustix::fs::fgetxattr(file, Sound::NAME, &mut marked[..]).ok()?;
        Some(std::str::from_utf8(marked.get(..length)?).ok()?.to_owned())
    }

    /// Returns true if the content of `file` was checked as it is here.
    pub(super) fn is_marked(&self, file: &File) -> bool {
        Sound::mark_of(file)
            .is_some_and(|mark| mark.rsplit_once(' ').is_some_and(|it| it.0 == self.0))
    }

    /// Returns true if it was checked to be a drive of this `shape`, too.
    pub(super) fn is_marked_for(&self, file: &File, shape: u32) -> bool {
        Sound::mark_of(file).is_some_and(|mark| mark == self.words(shape))
    }

    fn words(&self, shape: u32) -> String {
        format!("{} {shape:08x}", self.0)
    }

    /// Marks `file`, all of which was written or checked since it was as here, to be a drive of this `shape`. A
    /// file that is not the same any more, or cannot be marked, is checked again by whoever opens it.
    pub(super) fn mark(&self, file: &File, shape: u32) {
        let written = file.metadata().and_then(|found| found.modified());
        let Ok(written) = written else { return };
        std::thread::sleep(Sound::TICK.saturating_sub(written.elapsed().unwrap_or_default()));
        if Sound::of(file).as_ref() == Some(self) {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::fsetxattr(file, Sound::NAME, self.words(shape).as_bytes(), flags);
        }
    }
}

/// Elsewhere nothing is known of any file: each is checked whenever it is opened.
#[cfg(not(target_os = "linux"))]
#[derive(Clone, Debug)]
pub(super) enum Sound {}

#[cfg(not(target_os = "linux"))]
impl Sound {
    pub(super) fn of(_: &File) -> Option<Sound> {
        None
    }

    pub(super) fn is_marked(&self, _: &File) -> bool {
        match *self {}
    }

    pub(super) fn is_marked_for(&self, _: &File, _: u32) -> bool {
        match *self {}
    }

    pub(super) fn mark(&self, _: &File, _: u32) {
        match *self {}
    }
}
