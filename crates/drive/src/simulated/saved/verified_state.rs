//! Marks of saved drives whose content is known to be what was written.

use std::fs::File;

/// State of a file at one moment: its inode, its length, and the time of the last write. A file whose mark
/// states the same has the content that was checked.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifiedState(String);

#[cfg(target_os = "linux")]
impl VerifiedState {
    /// Name of the extended attribute that holds the mark.
    const NAME: &str = "user.ssdlab.sound";

    /// Minimum age of the last write for a later write to have a later time: ticks of the kernel's clock
    /// are 10 ms at most.
    const TICK: std::time::Duration = std::time::Duration::from_millis(20);

    /// Returns the state of `file` now, or `None` if the file system does not record the time finely
    /// enough.
    pub(super) fn of(file: &File) -> Option<VerifiedState> {
        use std::os::unix::fs::MetadataExt;
        let found = file.metadata().ok()?;
        let (inode, length, nanoseconds) = (found.ino(), found.len(), found.mtime_nsec());
        let state = format!("{inode} {length} {}.{nanoseconds:09}", found.mtime());
        (nanoseconds != 0).then_some(VerifiedState(state))
    }

    fn mark_of(file: &File) -> Option<String> {
        let mut marked = [0; 128];
        let length = rustix::fs::fgetxattr(file, VerifiedState::NAME, &mut marked[..]).ok()?;
        Some(std::str::from_utf8(marked.get(..length)?).ok()?.to_owned())
    }

    /// Returns true if `file` was checked in this state.
    pub(super) fn is_marked(&self, file: &File) -> bool {
        VerifiedState::mark_of(file)
            .is_some_and(|mark| mark.rsplit_once(' ').is_some_and(|it| it.0 == self.0))
    }

    /// Returns true if `file` was also checked to be a drive of this `shape`.
    pub(super) fn is_marked_for(&self, file: &File, shape: u32) -> bool {
        VerifiedState::mark_of(file).is_some_and(|mark| mark == self.mark_text(shape))
    }

    fn mark_text(&self, shape: u32) -> String {
        format!("{} {shape:08x}", self.0)
    }

    /// Marks `file` as a sound drive of this `shape`. All of it was written, or checked, since it was in
    /// this state. A file that has changed since, or that cannot be marked, is checked again when it is
    /// next opened.
    pub(super) fn mark(&self, file: &File, shape: u32) {
        let written = file.metadata().and_then(|found| found.modified());
        let Ok(written) = written else { return };
        std::thread::sleep(
            VerifiedState::TICK.saturating_sub(written.elapsed().unwrap_or_default()),
        );
        if VerifiedState::of(file).as_ref() == Some(self) {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::fsetxattr(
                file,
                VerifiedState::NAME,
                self.mark_text(shape).as_bytes(),
                flags,
            );
        }
    }
}

/// On other systems no file can be marked: each is checked whenever it is opened.
#[cfg(not(target_os = "linux"))]
#[derive(Clone, Debug)]
pub(super) enum VerifiedState {}

#[cfg(not(target_os = "linux"))]
impl VerifiedState {
    pub(super) fn of(_: &File) -> Option<VerifiedState> {
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
