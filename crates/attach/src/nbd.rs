//! The drive as an NBD server: fixed newstyle negotiation, simple or structured replies, `base:allocation`.
//!
//! The protocol is that of the NetworkBlockDevice project's `proto.md`. A connection has its own threads, one
//! of which at a time receives requests. Several connections may serve one client (multi-conn), because a flush
//! on one makes all writes durable that were answered on any.

mod carry_out;
mod context;
mod fast_time;
mod handshake;
mod protocol;
mod real_time;
mod reply;
mod request;

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::net::sockopt::set_socket_send_buffer_size_force;

use crate::completion_lateness::LatenessHistogram;
use crate::engine::{Engine, Time};
use crate::error::AttachError;
use crate::socket::listen_privately;

/// Maximum number of connections; more are refused, so that clients cannot exhaust threads.
const CONNECTIONS_MAX: usize = 64;

/// Characters of a socket's path that are percent-encoded in a URI.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Time after which a client is given up that does not read its replies.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Size of the send buffer in bytes that the system is asked for, for clients on this machine.
const SEND_BUFFER: usize = 4 << 20;

/// Address at which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port; loopback unless a host is named.
    Tcp(String),
}

impl Address {
    /// Parses `unix:PATH`, `HOST:PORT`, `:PORT` or `PORT`.
    ///
    /// # Errors
    /// Returns an error if `text` has none of these forms.
    pub fn parse(text: &str) -> Result<Address, AttachError> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(AttachError::Usage("--nbd unix: needs a path".to_owned()));
            }
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        if port.parse::<u16>().is_err() {
            return Err(AttachError::Usage(format!(
                "--nbd {text}: write unix:PATH, HOST:PORT, or :PORT for this machine alone"
            )));
        }
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Address::Tcp(format!("{host}:{port}")))
    }
}

/// A connection, of either kind.
#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        })
    }

    /// Asks the system for a larger send buffer.
    fn enlarge_send_buffer(&self) {
        // If the system refuses, a slow client blocks the server sooner.
        let _ = match self {
            Stream::Unix(stream) => set_socket_send_buffer_size_force(stream, SEND_BUFFER),
            Stream::Tcp(_) => Ok(()),
        };
    }

    /// Sets the time after which a write to a client that does not read fails.
    fn set_write_timeout(&self, patience: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(Some(patience)),
            Stream::Tcp(stream) => stream.set_write_timeout(Some(patience)),
        }
    }

    /// Sets the time after which a read from a silent client fails.
    fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(patience),
            Stream::Tcp(stream) => stream.set_read_timeout(patience),
        }
    }

    fn shut_down(&self) {
        // The connection may be closed already.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(bytes),
            Stream::Tcp(stream) => stream.write_vectored(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn bind(address: &Address) -> Result<Listener, AttachError> {
        let listener = match address {
            Address::Unix(path) => {
                remove_stale(path);
                let bound = listen_privately(path);
                Listener::Unix(bound.map_err(|error| AttachError::io("listen at", path, error))?)
            }
            Address::Tcp(text) => {
                let cannot = |error| AttachError::io("listen at", Path::new(text), error);
                let addresses: Vec<_> = text.to_socket_addrs().map_err(cannot)?.collect();
                Listener::Tcp(TcpListener::bind(addresses.as_slice()).map_err(cannot)?)
            }
        };
        let nonblocking = match &listener {
            Listener::Unix(listener) => listener.set_nonblocking(true),
            Listener::Tcp(listener) => listener.set_nonblocking(true),
        };
        nonblocking.map_err(|error| AttachError::io("listen at", Path::new("a socket"), error))?;
        Ok(listener)
    }

    fn accept(&self) -> io::Result<Stream> {
        let stream = match self {
            Listener::Unix(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nonblocking(false)?;
                Stream::Unix(stream)
            }
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        stream.set_write_timeout(SEND_TIMEOUT)?;
        stream.enlarge_send_buffer();
        Ok(stream)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Returns true if other machines may reach the listener.
    fn is_public(&self) -> bool {
        match self {
            Listener::Unix(_) => false,
            Listener::Tcp(listener) => {
                let address = listener.local_addr();
                address.map_or(true, |it| !it.ip().to_canonical().is_loopback())
            }
        }
    }

    /// Returns the address as a URI for clients.
    fn uri(&self, address: &Address) -> String {
        match (self, address) {
            (Listener::Tcp(listener), _) => match listener.local_addr() {
                Ok(bound) => format!("nbd://{bound}"),
                Err(_) => "nbd://".to_owned(),
            },
            (_, Address::Unix(path)) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let encoded = percent_encode(path.as_os_str().as_bytes(), RESERVED);
                format!("nbd+unix:///?socket={encoded}")
            }
            (_, Address::Tcp(text)) => format!("nbd://{text}"),
        }
    }
}

/// Removes a Unix socket at which nobody listens, left by a killed process.
fn remove_stale(path: &Path) {
    let is_socket = path.symlink_metadata().is_ok_and(|it| it.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        // If the file stays, binding fails and says so.
        let _ = std::fs::remove_file(path);
    }
}

/// State that connections share.
struct Shared {
    engine: Arc<Engine>,
    lateness: Arc<LatenessHistogram>,
    /// Name of the export, besides "".
    name: String,
    is_closing: AtomicBool,
    connections: Mutex<Vec<(u64, Stream)>>,
    /// Number of connections that have finished negotiation, and so use the drive.
    negotiated: AtomicUsize,
}

/// A server that is listening.
pub struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    uri: String,
    is_public: bool,
    socket: Option<PathBuf>,
}

impl Server {
    /// Starts a server for `engine` at `address`, with the export `name` or "".
    ///
    /// # Errors
    /// Returns an error if the server cannot listen there.
    pub fn start(
        engine: Arc<Engine>,
        lateness: Arc<LatenessHistogram>,
        address: &Address,
        name: &str,
    ) -> Result<Server, AttachError> {
        let listener = Listener::bind(address)?;
        let (uri, is_public) = (listener.uri(address), listener.is_public());
        let shared = Arc::new(Shared {
            engine,
            lateness,
            name: name.to_owned(),
            is_closing: AtomicBool::new(false),
            connections: Mutex::default(),
            negotiated: AtomicUsize::new(0),
        });
        let its_own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("nbd".to_owned())
            .spawn(move || accept_all(&listener, &its_own))
            .map_err(|error| AttachError::io("start a thread for", Path::new(&uri), error))?;
        let socket = match address {
            Address::Unix(path) => Some(path.clone()),
            Address::Tcp(_) => None,
        };
        Ok(Server { shared, thread: Some(thread), uri, is_public, socket })
    }

    /// Returns the address as a URI for clients.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns true if other machines may reach the server: it listens at an address that is not loopback.
    pub fn is_public(&self) -> bool {
        self.is_public
    }

    /// Returns a function that returns the current number of connections that use the drive.
    pub(crate) fn counter(&self) -> impl Fn() -> usize + Send + 'static {
        let shared = self.shared.clone();
        move || shared.negotiated.load(Ordering::Relaxed)
    }

    /// Closes all connections and accepts no more.
    pub fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.is_closing.store(true, Ordering::Relaxed);
        // A panic of a connection was reported by its own thread.
        let _ = thread.join();
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("uri", &self.uri).finish_non_exhaustive()
    }
}

fn accept_all(listener: &Listener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut number = 0;
    let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !shared.is_closing.load(Ordering::Relaxed) {
        let fd = listener.as_fd();
        let mut polled = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        if !matches!(rustix::event::poll(&mut polled, Some(&wait)), Ok(1..)) {
            continue;
        }
        threads.retain(|thread| !thread.is_finished());
        let Ok(stream) = listener.accept() else { continue };
        if threads.len() >= CONNECTIONS_MAX {
            continue;
        }
        number += 1;
        if let Ok(stream) = stream.try_clone() {
            connections(shared).push((number, stream));
        }
        let shared = shared.clone();
        let serve = move || {
            serve(stream, &shared);
            connections(&shared).retain(|(it, _)| *it != number);
        };
        if let Ok(thread) = std::thread::Builder::new().name("nbd client".to_owned()).spawn(serve) {
            threads.push(thread);
        }
    }
    for (_, stream) in &*connections(shared) {
        stream.shut_down();
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn connections(shared: &Shared) -> std::sync::MutexGuard<'_, Vec<(u64, Stream)>> {
    shared.connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one client until it disconnects or violates the protocol.
fn serve(mut stream: Stream, shared: &Shared) {
    // A protocol error or a broken connection ends this connection and nothing else.
    let negotiated = handshake::negotiate(&mut stream, &shared.engine, &shared.name);
    let Ok(Some(negotiated)) = negotiated else { return };
    shared.negotiated.fetch_add(1, Ordering::Relaxed);
    let _ = match shared.engine.time() {
        Time::Fast => fast_time::serve(stream, negotiated, shared),
        Time::Real => real_time::serve(stream, negotiated, &shared.engine, &shared.lateness),
    };
    shared.negotiated.fetch_sub(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_public_unless_it_listens_at_loopback() {
        let is_public = |text: &str| {
            let listener = Listener::bind(&Address::Tcp(text.to_owned())).expect("a free port");
            listener.is_public()
        };
        assert!(is_public("0.0.0.0:0"));
        assert!(!is_public("127.0.0.1:0"));
        assert!(!is_public("127.9.9.9:0"));
    }

    #[test]
    fn an_address_is_of_this_machine_unless_it_says_otherwise() {
        let tcp = |text: &str| Address::Tcp(text.to_owned());
        assert_eq!(Address::parse("10809").unwrap(), tcp("127.0.0.1:10809"));
        assert_eq!(Address::parse(":10809").unwrap(), tcp("127.0.0.1:10809"));
        assert_eq!(Address::parse("0.0.0.0:1").unwrap(), tcp("0.0.0.0:1"));
        assert_eq!(Address::parse("unix:/a/b").unwrap(), Address::Unix("/a/b".into()));
        assert!(Address::parse("unix:").is_err() && Address::parse("host").is_err());
    }
}
