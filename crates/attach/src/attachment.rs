//! An attached drive: the engine, the route to it (loop device, file, NBD, ublk), and detaching in order.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::completion_lateness::LatenessHistogram;
use crate::control::{self, Control, ControlRequest, Detached, Record};
use crate::device::{self, LoopDevice};
use crate::engine::{Engine, Opened, Options, Outcome, Time};
use crate::error::AttachError;
use crate::fuse::Mounted;
use crate::image::Image;
use crate::nbd::{Address, Server};
use crate::stale_mounts;
use crate::status::Status;
#[cfg(feature = "ublk")]
use crate::timer::Timer;
#[cfg(feature = "ublk")]
use crate::users;

/// Route by which the drive is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// As a loop device, which needs root; mounted if `mount` is given.
    Device {
        /// Mount point, and the file system to make if the drive holds nothing.
        mount: Option<(PathBuf, String)>,
    },
    /// As a file in this directory (FUSE).
    File(PathBuf),
    /// Over NBD, at this address.
    Nbd(Address),
    /// As a ublk device.
    #[cfg(feature = "ublk")]
    Ublk,
}

impl Route {
    /// Returns an error if the route names something that is no directory. Called before anything is done to
    /// the drive.
    fn check(&self) -> Result<(), AttachError> {
        let (option, directory) = match self {
            Route::File(directory) => ("--file", directory),
            Route::Device { mount: Some((directory, _)) } => ("--mount", directory),
            _ => return Ok(()),
        };
        check_utf8(&resolve_directory(directory))?;
        let place = directory.display();
        match std::fs::metadata(directory) {
            Ok(found) if !found.is_dir() => Err(AttachError::Usage(format!(
                "{option} {place} is not a directory; name an empty directory for the drive"
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(AttachError::Usage(format!(
                "there is no directory {place}; make it first: mkdir {place}"
            ))),
            // A mount whose program was killed cannot be examined; it is cleaned up later.
            _ => Ok(()),
        }
    }
}

/// The file of an image while its drive is attached.
struct ImageFile {
    path: PathBuf,
    /// The file, opened with `O_PATH`, and its length when the drive was attached; `None` if that failed.
    file: Option<(File, u64)>,
}

impl ImageFile {
    fn new(path: &Path) -> ImageFile {
        // `O_PATH` reads nothing, and closing such a descriptor releases no lock.
        let open = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
        let with_length = |file: File| file.metadata().map(|found| (file, found.len()));
        ImageFile { path: path.to_owned(), file: open.and_then(with_length).ok() }
    }

    /// Returns an error if somebody has removed the file or cut it short since.
    fn check(&self) -> Result<(), AttachError> {
        let Some((file, length)) = &self.file else { return Ok(()) };
        let Ok(found) = file.metadata() else { return Ok(()) };
        let path = self.path.display();
        if found.nlink() == 0 {
            return Err(AttachError::Lost(format!(
                "the image {path} was removed while its drive was attached: its data is lost"
            )));
        }
        if found.len() < *length {
            return Err(AttachError::Lost(format!(
                "the image {path} was truncated while its drive was attached, from {length} to {} \
                 bytes: the data beyond that is lost",
                found.len()
            )));
        }
        Ok(())
    }
}

/// State that the control thread shares with the thread that runs `Attachment`.
struct Shared {
    file: ImageFile,
    engine: Arc<Engine>,
    lateness: Arc<LatenessHistogram>,
    began: Instant,
    time: Time,
    image: PathBuf,
    profile: String,
    place: Mutex<String>,
    is_detach_requested: AtomicBool,
    device: Mutex<Option<LoopDevice>>,
    /// Callback that names the users of a file, NBD server or ublk device, as text; `None` for a loop device.
    users: Mutex<Option<Users>>,
    /// Outcome of detaching, once there is one; `has_ended` wakes those who wait for it.
    detached: Mutex<Option<Detached>>,
    has_ended: Condvar,
}

type Users = Box<dyn Fn() -> Option<String> + Send>;

/// Time for which users may still be seen that are just leaving.
const USER_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// An attached drive.
pub struct Attachment {
    shared: Arc<Shared>,
    opened: Opened,
    server: Option<Server>,
    #[cfg(feature = "ublk")]
    ublk: Option<crate::ublk::Device>,
    mounted: Option<Mounted>,
    /// Directory made for the file of a loop device; removed at the end.
    directory: Option<PathBuf>,
    control: Option<Control>,
    helper: Option<JoinHandle<()>>,
    notes: Vec<String>,
}

/// Interval at which an attached drive is given idle time.
const IDLE_TICK: Duration = Duration::from_millis(20);

impl Attachment {
    /// Attaches the drive in the image at `image`, by `route`.
    ///
    /// # Errors
    /// Returns an error if the image cannot be opened, or the route cannot be set up.
    pub fn new(image: &Path, route: &Route, options: Options) -> Result<Attachment, AttachError> {
        route.check()?;
        let open = if options.read_only { Image::open_read_only } else { Image::open };
        let path = std::fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
        check_utf8(&path)?;
        let opened = open(image)?;
        let image = &path;
        // This process has the image, so the process that had it before has ended.
        let mut notes = control::clean_up_after_image(image)?;
        let profile = opened.profile().name().to_owned();
        if opened.is_read_only() && !options.read_only {
            notes.push(read_only_note("cannot be written to by this user, or on this file system"));
        }
        let (engine, opened) = match Engine::open(opened, options) {
            Err(error) if is_disk_full(&error) => {
                notes.push(read_only_note("lies on a disk that is full"));
                Engine::open(Image::open_read_only(image)?, options)?
            }
            opened => opened?,
        };
        let shared = Arc::new(Shared {
            file: ImageFile::new(image),
            engine: Arc::new(engine),
            lateness: Arc::default(),
            began: Instant::now(),
            time: options.time,
            image: image.clone(),
            profile,
            place: Mutex::default(),
            is_detach_requested: AtomicBool::new(false),
            device: Mutex::default(),
            users: Mutex::default(),
            detached: Mutex::default(),
            has_ended: Condvar::new(),
        });
        let mut attachment = Attachment {
            shared,
            opened,
            server: None,
            #[cfg(feature = "ublk")]
            ublk: None,
            mounted: None,
            directory: None,
            control: None,
            helper: None,
            notes,
        };
        attachment.start_helper();
        if let Err(error) = attachment.set_up_route(route) {
            // The error of the route is the one to report. Nothing can have been written yet, so a device that
            // stays in use for longer than a moment loses nothing.
            let _ = attachment.detach_within(device::BUSY_RETRY_MAX);
            return Err(error);
        }
        Ok(attachment)
    }

    fn start_helper(&mut self) {
        if self.shared.time != Time::Real {
            return;
        }
        let engine = self.shared.engine.clone();
        let thread = std::thread::Builder::new().name("image".to_owned());
        // Without the thread, answers are later.
        self.helper = thread.spawn(move || engine.run_helper()).ok();
    }

    fn set_up_route(&mut self, route: &Route) -> Result<(), AttachError> {
        let (engine, lateness) = (self.shared.engine.clone(), self.shared.lateness.clone());
        let stem = self.shared.image.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (mut device, mut mounted_at) = (None, None);
        let place = match route {
            Route::Nbd(address) => {
                let server = Server::start(engine, lateness, address, &stem)?;
                let place = server.uri().to_owned();
                if server.is_public() {
                    self.notes.push(format!(
                        "Warning: anyone who reaches {place} over the network can read and \
                         overwrite this drive: it asks for no password, and nothing is encrypted. \
                         --nbd :PORT serves this machine only."
                    ));
                }
                let connected = server.counter();
                self.shared.set_user_query(move || match connected() {
                    0 => None,
                    1 => Some("a client is connected".to_owned()),
                    count => Some(format!("clients have {count} connections")),
                });
                self.server = Some(server);
                place
            }
            #[cfg(feature = "ublk")]
            Route::Ublk => {
                let timer = Timer::start(lateness).map_err(|error| {
                    AttachError::io("start a thread for", &self.shared.image, error)
                })?;
                let clock_engine = engine.clone();
                let thread = std::thread::Builder::new().name("time".to_owned());
                // The thread ends when the drive is closed.
                thread.spawn(move || clock_engine.run_clock()).map_err(|error| {
                    AttachError::io("start a thread for", &self.shared.image, error)
                })?;
                let made = crate::ublk::Device::start(&engine, &Arc::new(timer))?;
                let place = made.path().to_owned();
                let path = place.clone();
                self.shared.set_user_query(move || {
                    crate::ublk::is_used(&path).then(|| users::names(&path))
                });
                self.ublk = Some(made);
                place
            }
            Route::File(directory) => {
                let full = resolve_directory(directory);
                let cannot = |error| AttachError::io("clean up", directory, error);
                if stale_mounts::unmount_stale(&full).map_err(cannot)? {
                    self.notes.push(format!(
                        "Unmounted {}, left behind by a drive whose program was killed.",
                        directory.display()
                    ));
                }
                let mounted = Mounted::mount(engine, lateness, directory, &stem)?;
                let place = mounted.file().display().to_string();
                mounted_at = Some(full);
                let opened = mounted.opened();
                self.shared.set_user_query(move || match opened.load(Ordering::Relaxed) {
                    0 => None,
                    _ => Some("a program has it open".to_owned()),
                });
                self.mounted = Some(mounted);
                place
            }
            Route::Device { mount } => {
                let run = ssdlab_rundir::directory()?;
                let directory = control::directory_for_file(&run, std::process::id());
                mounted_at = Some(directory.clone());
                std::fs::create_dir(&directory)
                    .map_err(|error| AttachError::io("make", &directory, error))?;
                self.directory = Some(directory.clone());
                let mounted = Mounted::mount(engine, lateness, &directory, &stem)?;
                let file = mounted.file().to_owned();
                self.mounted = Some(mounted);
                let mut attached = LoopDevice::attach(&file, self.shared.engine.is_read_only())?;
                let path = attached.path().to_owned();
                let outcome = match mount {
                    Some((place, file_system)) => {
                        let is_blank = self.shared.engine.is_blank();
                        attached.mount(place, file_system, is_blank)
                    }
                    None => Ok(()),
                };
                *lock(&self.shared.device) = Some(attached);
                outcome?;
                device = Some(path.clone());
                path
            }
        };
        lock(&self.shared.place).clone_from(&place);
        let record = Record {
            pid: std::process::id(),
            image: self.shared.image.clone(),
            place,
            device,
            directory: mounted_at,
        };
        let shared = self.shared.clone();
        self.control = Some(Control::start(&record, move |ask| shared.answer(ask))?);
        Ok(())
    }

    /// Returns notes for the user about the attachment, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the state in which the image was found.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Returns the place of the drive: a device, a file or an address.
    pub fn place(&self) -> String {
        lock(&self.shared.place).clone()
    }

    /// Returns the engine of the drive.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// Returns the drive's status.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Lets idle time pass on the drive until `stop` returns true or a program asks for the drive to be
    /// detached. A drive without power stays attached, and fails requests, until then.
    pub fn run(&self, mut stop: impl FnMut() -> bool) {
        while !stop() && !self.shared.is_detach_requested.load(Ordering::Relaxed) {
            std::thread::sleep(IDLE_TICK);
            self.shared.engine.tick();
        }
    }

    /// Unmounts what this attachment has mounted, and detaches the loop device if nobody uses it. Tries for ten
    /// seconds, or once if this is repeated (`is_retry`). Call it before [`Attachment::detach`], which
    /// does not stop for users.
    ///
    /// # Errors
    /// [`AttachError::Busy`] if the device is in use. The drive works on then, and what was written to a
    /// mounted file system is on the drive, and durable.
    pub fn release_if_unused(&self, is_retry: bool) -> Result<(), AttachError> {
        let patience = if is_retry { Duration::ZERO } else { device::TIMEOUT };
        self.shared.release_device(Instant::now() + patience)
    }

    /// Detaches the drive in order: unmounts, removes the device, flushes, and closes the image. What cannot be
    /// unmounted loses its drive.
    ///
    /// # Errors
    /// Returns an error if something stays in use, or if the image cannot be closed; what was flushed is there.
    pub fn detach(&mut self) -> Result<Outcome, AttachError> {
        self.detach_within(device::TIMEOUT)
    }

    /// Detaches the drive as [`Attachment::detach`] does; waits up to `patience` for users of the device.
    fn detach_within(&mut self, patience: Duration) -> Result<Outcome, AttachError> {
        let released = self.release(patience);
        let closed = self.shared.engine.close();
        if let Some(helper) = self.helper.take() {
            // A panic was reported by the helper thread itself.
            let _ = helper.join();
        }
        let outcome = released.and(closed);
        let outcome = outcome.and_then(|outcome| self.shared.file.check().map(|()| outcome));
        self.shared.publish_outcome(&outcome);
        // Closing the control thread lets it answer whoever has asked for the end.
        self.control = None;
        outcome
    }

    fn release(&mut self, patience: Duration) -> Result<(), AttachError> {
        let released = self.shared.release_device(Instant::now() + patience);
        if let Some(device) = lock(&self.shared.device).take() {
            device.detach_lazily();
        }
        if let Some(mut server) = self.server.take() {
            server.close();
        }
        #[cfg(feature = "ublk")]
        if let Some(mut device) = self.ublk.take() {
            let path = device.path().to_owned();
            device.stop().map_err(|error| AttachError::io("take away", Path::new(&path), error))?;
        }
        if let Some(mut mounted) = self.mounted.take() {
            let directory = mounted.directory().to_owned();
            mounted
                .unmount(patience)
                .map_err(|error| AttachError::io("unmount", &directory, error))?;
        }
        if let Some(directory) = self.directory.take() {
            // A leftover directory does no harm.
            let _ = std::fs::remove_dir(directory);
        }
        released
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Detaches in order even if a test panics. A caller who wants the outcome has called `detach`.
        let _ = self.detach();
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").field("image", &self.shared.image).finish_non_exhaustive()
    }
}

/// Returns an error if a full path cannot be written into the record by which other programs find the drive.
fn check_utf8(path: &Path) -> Result<(), AttachError> {
    if path.to_str().is_some() {
        return Ok(());
    }
    let message = format!(
        "{}: only files whose full names are UTF-8 can be attached; rename it",
        path.display()
    );
    Err(AttachError::Usage(message))
}

/// Returns the note that an image is attached read-only; `does` completes "the image ...".
fn read_only_note(does: &str) -> String {
    format!("Attached for reading only: the image {does}. Writes fail, and nothing in it changes.")
}

/// Returns true if the drive could not be opened because the disk of its image is full, or a quota.
fn is_disk_full(error: &AttachError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let AttachError::Io { source, .. } = error else { return false };
    matches!(source.kind(), StorageFull | QuotaExceeded)
}

/// Returns the full path of a directory, symbolic links resolved. The directory itself may be the mount of a
/// killed program, which answers nothing.
fn resolve_directory(directory: &Path) -> PathBuf {
    let full = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    if let Ok(found) = std::fs::canonicalize(&full) {
        return found;
    }
    match (full.parent().map(std::fs::canonicalize), full.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => full,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn status(&self) -> Status {
        let geometry = &self.engine.configuration().geometry;
        let mut status = Status {
            schema: "ssdlab.status/1",
            image: self.image.display().to_string(),
            place: lock(&self.place).clone(),
            profile: self.profile.clone(),
            pid: std::process::id(),
            attached_s: self.began.elapsed().as_secs_f64(),
            real_time: self.time == Time::Real,
            clock_s: 0.0,
            capacity_bytes: geometry.capacity().bytes(),
            unit_bytes: geometry.unit_size().bytes(),
            counters: Default::default(),
            map_cache: None,
            write_amplification: None,
            wear: Default::default(),
            free_blocks: 0,
            blocks: geometry.blocks(),
            blocks_by_valid_share: Default::default(),
            requests: Default::default(),
            attribution: Default::default(),
            lateness: self.lateness.summary(),
        };
        self.engine.fill_status(&mut status);
        status
    }

    /// Answers a question from the control socket, in JSON.
    fn answer(&self, ask: ControlRequest) -> String {
        match ask {
            ControlRequest::Status => {
                serde_json::to_string(&self.status()).expect("figures are written as JSON")
            }
            ControlRequest::Blocks => {
                serde_json::to_string(&self.engine.blocks()).expect("a picture is written as JSON")
            }
            ControlRequest::Prometheus => {
                serde_json::to_string(&self.status().prometheus()).expect("text is written as JSON")
            }
            ControlRequest::PowerCut => {
                self.engine.power_cut();
                "\"done\"".to_owned()
            }
            ControlRequest::Detach => {
                serde_json::to_string(&self.detach_on_request()).expect("words are written as JSON")
            }
        }
    }

    fn set_user_query(&self, users: impl Fn() -> Option<String> + Send + 'static) {
        *lock(&self.users) = Some(Box::new(users));
    }

    fn release_device(&self, until: Instant) -> Result<(), AttachError> {
        let mut device = lock(&self.device);
        if let Some(held) = &mut *device {
            if self.engine.is_cut() { held.force_detach(until) } else { held.detach(until) }?;
        }
        *device = None;
        Ok(())
    }

    /// Detaches the drive for a program that asks for it, unless it is in use.
    fn detach_on_request(&self) -> Detached {
        if !self.engine.is_cut() {
            if let Some(users) = self.users() {
                return Detached::InUse(users);
            }
            if let Err(error) = self.release_device(Instant::now() + device::TIMEOUT) {
                return match error {
                    AttachError::Busy { users, .. } => Detached::InUse(users),
                    error => Detached::InUse(error.to_string()),
                };
            }
        }
        self.is_detach_requested.store(true, Ordering::Relaxed);
        let ended = self.has_ended.wait_timeout_while(
            lock(&self.detached),
            control::DETACH_TIMEOUT,
            |detached| detached.is_none(),
        );
        let detached = ended.unwrap_or_else(PoisonError::into_inner).0.clone();
        detached.unwrap_or_else(|| {
            let message = "its image is still being closed in the background; when that is done, \
                           'ssdlab status' no longer finds it";
            Detached::Failed(message.to_owned())
        })
    }

    /// Returns the other users of the drive, as text; `None` if there are none.
    fn users(&self) -> Option<String> {
        let mounts = lock(&self.device).as_ref().and_then(LoopDevice::other_mounts);
        if mounts.is_some() {
            return mounts;
        }
        let users = lock(&self.users);
        let users = users.as_ref()?;
        let until = Instant::now() + USER_EXIT_TIMEOUT;
        loop {
            let found = users();
            if found.is_none() || Instant::now() > until {
                return found;
            }
            std::thread::sleep(IDLE_TICK);
        }
    }

    fn publish_outcome(&self, outcome: &Result<Outcome, AttachError>) {
        let ended = match outcome {
            Ok(outcome) => Detached::Done(*outcome),
            Err(error) => Detached::Failed(with_causes(error)),
        };
        lock(&self.detached).get_or_insert(ended);
        self.has_ended.notify_all();
    }
}

/// Returns an error and its causes, as text.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}
