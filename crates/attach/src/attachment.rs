//! A drive that is attached: the engine, the ways to reach it, and their order at the end.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::control::{self, Ask, Control, Detached, Record};
use crate::device::{self, LoopDevice};
use crate::engine::{Engine, Opened, Options, Outcome, Time};
use crate::error::AttachError;
use crate::fuse::Mounted;
use crate::image::Image;
use crate::lateness::Recorder;
use crate::leftovers;
use crate::nbd::{Address, Server};
use crate::status::Status;
#[cfg(feature = "ublk")]
use crate::timer::Timer;
#[cfg(feature = "ublk")]
use crate::users;

/// How a drive is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// As a loop device, which needs root; perhaps mounted.
    Device {
        /// Where to mount it, and with which file system if there is none on it.
        mount: Option<(PathBuf, String)>,
    },
    /// As a file in this directory.
    File(PathBuf),
    /// By NBD.
    Nbd(Address),
    /// As a ublk device.
    #[cfg(feature = "ublk")]
    Ublk,
}

impl Route {
    /// Fails where a directory is named that is none, before anything is done to the drive.
    fn check(&self) -> Result<(), AttachError> {
        let (option, directory) = match self {
            Route::File(directory) => ("--file", directory),
            Route::Device { mount: Some((directory, _)) } => ("--mount", directory),
            _ => return Ok(()),
        };
        check_name(&full_name(directory))?;
        let place = directory.display();
        match std::fs::metadata(directory) {
            Ok(found) if !found.is_dir() => Err(AttachError::Usage(format!(
                "{option} {place} is no directory; name an empty one, which is to take the drive"
            ))),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(AttachError::Usage(format!(
                "there is no directory {place}; make it first: mkdir {place}"
            ))),
            // One whose drive was killed cannot be looked at, and is cleaned up.
            _ => Ok(()),
        }
    }
}

/// The file of an image while its drive is attached.
struct Held {
    path: PathBuf,
    /// It and its length when the drive was attached; `None` where it cannot be looked at.
    file: Option<(File, u64)>,
}

impl Held {
    fn new(path: &Path) -> Held {
        // Nothing is read, and no lock ends with it.
        let open = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
        let with_length = |file: File| file.metadata().map(|found| (file, found.len()));
        Held { path: path.to_owned(), file: open.and_then(with_length).ok() }
    }

    /// Fails where others have removed it or cut it short since.
    fn check(&self) -> Result<(), AttachError> {
        let Some((file, length)) = &self.file else { return Ok(()) };
        let Ok(found) = file.metadata() else { return Ok(()) };
        let path = self.path.display();
        if found.nlink() == 0 {
            return Err(AttachError::Lost(format!(
                "the image {path} was removed while its drive was attached: what was on it is gone"
            )));
        }
        if found.len() < *length {
            return Err(AttachError::Lost(format!(
                "the image {path} was cut short while its drive was attached, from {length} to {} \
                 bytes: what was behind that is gone",
                found.len()
            )));
        }
        Ok(())
    }
}

/// What the threads that answer questions share with the one that looks after the drive.
struct Shared {
    file: Held,
    engine: Arc<Engine>,
    lateness: Arc<Recorder>,
    began: Instant,
    time: Time,
    image: PathBuf,
    profile: String,
    place: Mutex<String>,
    wants_end: AtomicBool,
    device: Mutex<Option<LoopDevice>>,
    /// Who uses what is no loop device, in words.
    users: Mutex<Option<Users>>,
    /// What became of the drive, and who waits for that.
    detached: Mutex<Option<Detached>>,
    has_ended: Condvar,
}

type Users = Box<dyn Fn() -> Option<String> + Send>;

/// How long those who leave may take until it is known that they have.
const LEAVING: Duration = Duration::from_secs(1);

/// A drive that is attached.
pub struct Attachment {
    shared: Arc<Shared>,
    opened: Opened,
    server: Option<Server>,
    #[cfg(feature = "ublk")]
    ublk: Option<crate::ublk::Device>,
    mounted: Option<Mounted>,
    /// The directory that we made for the file of a loop device.
    directory: Option<PathBuf>,
    control: Option<Control>,
    helper: Option<JoinHandle<()>>,
    notes: Vec<String>,
}

/// How often a drive that nobody asks anything of is looked after.
const TICK: Duration = Duration::from_millis(20);

impl Attachment {
    /// Attaches the drive in `image`.
    ///
    /// # Errors
    /// Returns an error if the image cannot be opened, or the drive cannot be reached that way.
    pub fn new(image: &Path, route: &Route, options: Options) -> Result<Attachment, AttachError> {
        route.check()?;
        let open = if options.read_only { Image::open_read_only } else { Image::open };
        let path = std::fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
        check_name(&path)?;
        let opened = open(image)?;
        let image = &path;
        // Nobody else has the image, so who had it has ended.
        let mut notes = control::clean_up_after_image(image)?;
        let profile = opened.profile().name().to_owned();
        if opened.is_read_only() && !options.read_only {
            notes
                .push(read_only_words("cannot be written to by this user, or on this file system"));
        }
        let (engine, opened) = match Engine::open(opened, options) {
            Err(error) if is_disk_full(&error) => {
                notes.push(read_only_words("lies on a disk that is full"));
                Engine::open(Image::open_read_only(image)?, options)?
            }
            opened => opened?,
        };
        let shared = Arc::new(Shared {
            file: Held::new(image),
            engine: Arc::new(engine),
            lateness: Arc::default(),
            began: Instant::now(),
            time: options.time,
            image: image.clone(),
            profile,
            place: Mutex::default(),
            wants_end: AtomicBool::new(false),
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
        if let Err(error) = attachment.reach(route) {
            // The error of the route is the one to tell. Nobody can have written yet: who has the device for longer
            // than a moment loses nothing.
            let _ = attachment.detach_within(device::MOMENT);
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
        // Without it, answers are later.
        self.helper = thread.spawn(move || engine.help()).ok();
    }

    fn reach(&mut self, route: &Route) -> Result<(), AttachError> {
        let (engine, lateness) = (self.shared.engine.clone(), self.shared.lateness.clone());
        let stem = self.shared.image.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (mut device, mut mounted_at) = (None, None);
        let place = match route {
            Route::Nbd(address) => {
                let server = Server::start(engine, lateness, address, &stem)?;
                let place = server.uri().to_owned();
                if server.is_public() {
                    self.notes.push(format!(
                        "Warning: whoever reaches {place} over the network can read and overwrite this drive: it \
                         asks for no password, and nothing is encrypted. --nbd :PORT serves this machine alone."
                    ));
                }
                let connected = server.counter();
                self.shared.ask_for_users(move || match connected() {
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
                let its_own = engine.clone();
                let thread = std::thread::Builder::new().name("time".to_owned());
                // It ends when the drive is closed.
                thread.spawn(move || its_own.keep_time()).map_err(|error| {
                    AttachError::io("start a thread for", &self.shared.image, error)
                })?;
                let made = crate::ublk::Device::start(&engine, &Arc::new(timer))?;
                let place = made.path().to_owned();
                let path = place.clone();
                self.shared.ask_for_users(move || {
                    crate::ublk::is_used(&path).then(|| users::names(&path))
                });
                self.ublk = Some(made);
                place
            }
            Route::File(directory) => {
                let full = full_name(directory);
                let cannot = |error| AttachError::io("clean up", directory, error);
                if leftovers::unmount_dead(&full).map_err(cannot)? {
                    self.notes.push(format!(
                        "Unmounted {}, which a drive had left whose program was killed.",
                        directory.display()
                    ));
                }
                let mounted = Mounted::mount(engine, lateness, directory, &stem)?;
                let place = mounted.file().display().to_string();
                mounted_at = Some(full);
                let opened = mounted.opened();
                self.shared.ask_for_users(move || match opened.load(Ordering::Relaxed) {
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

    /// Returns what the user should know of how it is attached, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns how the image was opened.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Returns where the drive is: a device, a file or an address.
    pub fn place(&self) -> String {
        lock(&self.shared.place).clone()
    }

    /// The drive.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// Its inside.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Looks after the drive until `stop` says so or somebody wants it detached. A drive that has
    /// lost power stays, and fails what is asked of it, until then.
    pub fn run(&self, mut stop: impl FnMut() -> bool) {
        while !stop() && !self.shared.wants_end.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            self.shared.engine.tick();
        }
    }

    /// Takes the drive away from who can do without: what is mounted is unmounted, and a loop device
    /// that nobody has goes. Tries for ten seconds, or once if that `is_tried_again`. To be called before
    /// [`Attachment::detach`], which asks nobody.
    ///
    /// # Errors
    /// [`AttachError::Busy`] when somebody has it. It works on then, and what was written to a file system
    /// that is mounted is on the drive, and durable.
    pub fn let_go(&self, is_tried_again: bool) -> Result<(), AttachError> {
        let patience = if is_tried_again { Duration::ZERO } else { device::PATIENCE };
        self.shared.let_go(Instant::now() + patience)
    }

    /// Detaches the drive in order: what is mounted is unmounted, the device goes, all is flushed, the
    /// image is closed. What cannot be unmounted loses its drive.
    ///
    /// # Errors
    /// Returns an error if something stays in use, or the image cannot be closed; what was flushed is there.
    pub fn detach(&mut self) -> Result<Outcome, AttachError> {
        self.detach_within(device::PATIENCE)
    }

    /// Detaches the drive as [`Attachment::detach`] does; waits for `patience` for whoever has the device.
    fn detach_within(&mut self, patience: Duration) -> Result<Outcome, AttachError> {
        let released = self.release(patience);
        let closed = self.shared.engine.close();
        if let Some(helper) = self.helper.take() {
            // A panic of its has been reported by its own thread.
            let _ = helper.join();
        }
        let outcome = released.and(closed);
        let outcome = outcome.and_then(|outcome| self.shared.file.check().map(|()| outcome));
        self.shared.note_end(&outcome);
        // Whoever has asked for it is told before this ends.
        self.control = None;
        outcome
    }

    fn release(&mut self, patience: Duration) -> Result<(), AttachError> {
        let released = self.shared.let_go(Instant::now() + patience);
        if let Some(device) = lock(&self.shared.device).take() {
            device.leave();
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
            // A leftover directory harms nothing.
            let _ = std::fs::remove_dir(directory);
        }
        released
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // In order even when a test panics; whoever wanted to know how it went has asked.
        let _ = self.detach();
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").field("image", &self.shared.image).finish_non_exhaustive()
    }
}

/// Checks that a full name can be written into the record by which other programs find the drive.
fn check_name(path: &Path) -> Result<(), AttachError> {
    if path.to_str().is_some() {
        return Ok(());
    }
    let words = format!(
        "{}: only files whose full names are UTF-8 can be attached; rename it",
        path.display()
    );
    Err(AttachError::Usage(words))
}

/// Describes that an image is only read, because it `does` something.
fn read_only_words(does: &str) -> String {
    format!("Attached for reading only: the image {does}. Writes fail, and nothing in it changes.")
}

/// Returns whether the drive could not be opened because the disk of its image has no room left.
fn is_disk_full(error: &AttachError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let AttachError::Io { source, .. } = error else { return false };
    matches!(source.kind(), StorageFull | QuotaExceeded)
}

/// Returns the name of a directory in full and without links. It may be the mount of a dead program, which
/// answers nothing.
fn full_name(directory: &Path) -> PathBuf {
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
            lateness: self.lateness.figures(),
        };
        self.engine.inside(&mut status);
        status
    }

    /// Answers what is asked over the control socket.
    fn answer(&self, ask: Ask) -> String {
        match ask {
            Ask::Status => {
                serde_json::to_string(&self.status()).expect("figures are written as JSON")
            }
            Ask::Blocks => {
                serde_json::to_string(&self.engine.blocks()).expect("a picture is written as JSON")
            }
            Ask::Prometheus => {
                serde_json::to_string(&self.status().prometheus()).expect("text is written as JSON")
            }
            Ask::PowerCut => {
                self.engine.power_cut();
                "\"done\"".to_owned()
            }
            Ask::Detach => serde_json::to_string(&self.detach_for_another())
                .expect("words are written as JSON"),
        }
    }

    fn ask_for_users(&self, users: impl Fn() -> Option<String> + Send + 'static) {
        *lock(&self.users) = Some(Box::new(users));
    }

    fn let_go(&self, until: Instant) -> Result<(), AttachError> {
        let mut device = lock(&self.device);
        if let Some(held) = &mut *device {
            if self.engine.is_cut() { held.tear_off(until) } else { held.detach(until) }?;
        }
        *device = None;
        Ok(())
    }

    /// Detaches the drive for a program that asks for it, unless somebody uses it.
    fn detach_for_another(&self) -> Detached {
        if !self.engine.is_cut() {
            if let Some(users) = self.users() {
                return Detached::InUse(users);
            }
            if let Err(error) = self.let_go(Instant::now() + device::PATIENCE) {
                return match error {
                    AttachError::Busy { users, .. } => Detached::InUse(users),
                    error => Detached::InUse(error.to_string()),
                };
            }
        }
        self.wants_end.store(true, Ordering::Relaxed);
        let ended = self.has_ended.wait_timeout_while(
            lock(&self.detached),
            control::PATIENCE_AT_END,
            |detached| detached.is_none(),
        );
        let detached = ended.unwrap_or_else(PoisonError::into_inner).0.clone();
        detached.unwrap_or_else(|| {
            let words = "its image is still being closed, and that goes on; 'ssdlab status' does not \
                         find it any more when it is done";
            Detached::Failed(words.to_owned())
        })
    }

    /// Who uses the drive besides us, in words.
    fn users(&self) -> Option<String> {
        let mounts = lock(&self.device).as_ref().and_then(LoopDevice::other_mounts);
        if mounts.is_some() {
            return mounts;
        }
        let users = lock(&self.users);
        let users = users.as_ref()?;
        let until = Instant::now() + LEAVING;
        loop {
            let found = users();
            if found.is_none() || Instant::now() > until {
                return found;
            }
            std::thread::sleep(TICK);
        }
    }

    fn note_end(&self, outcome: &Result<Outcome, AttachError>) {
        let ended = match outcome {
            Ok(outcome) => Detached::Done(*outcome),
            Err(error) => Detached::Failed(chain(error)),
        };
        lock(&self.detached).get_or_insert(ended);
        self.has_ended.notify_all();
    }
}

/// An error and its causes, in words.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}
