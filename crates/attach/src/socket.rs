//! Unix sockets that only their owner can connect to.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{bind, listen, socket_with};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens at `path`, where no file may exist. The socket has mode 0600 from its creation, whatever the umask
/// is.
///
/// # Errors
/// Returns an error if a file exists, if the path is too long for a socket, or if a system call fails.
pub(crate) fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux gives the socket's file the mode of the socket, less the umask.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The umask belongs to the whole process: this is the only test that sets it.
    #[test]
    fn only_the_owner_may_connect_whatever_the_umask() {
        let directory = tempfile::tempdir().expect("a directory");
        for (index, mask) in [0o000, 0o022, 0o077].into_iter().enumerate() {
            let path = directory.path().join(format!("{index}.sock"));
            let before = rustix::process::umask(Mode::from_raw_mode(mask));
            let listener = listen_privately(&path);
            rustix::process::umask(before);
            let _listener = listener.expect("a socket");
            let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "umask {mask:o}");
        }
        let path = directory.path().join("0.sock");
        assert!(listen_privately(&path).is_err(), "something is there");
    }
}
