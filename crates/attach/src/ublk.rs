//! The drive as a ublk device: a block device whose requests the kernel passes to this program by io_uring,
//! without FUSE. Needs the driver (`ublk_drv`) with user copy (Linux 6.5).
//!
//! A device is added, given its parameters, and started when its queues have fetched (`queue`). At the end it
//! is stopped and deleted.

mod abi;
mod queue;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::engine::Engine;
use crate::error::AttachError;
use crate::timer::Timer;
use abi::{DeviceInfo, Parameters};
use queue::{BYTES_MAX, DEPTH, Queue, SECTOR};

/// Number of queues of a device, with a thread each.
const QUEUES: u16 = 2;

/// Time that the system has to create the device file.
const CREATE_TIMEOUT: Duration = Duration::from_secs(5);

/// The control device; it takes one command at a time.
struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

/// A ublk device.
pub struct Device {
    control: Control,
    id: u32,
    threads: Vec<JoinHandle<io::Result<()>>>,
    path: String,
    is_stopped: bool,
}

impl Control {
    fn open() -> Result<Control, AttachError> {
        let path = Path::new(abi::CONTROL);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return AttachError::io("open", path, error);
            }
            AttachError::System(
                "this kernel has no ublk devices (/dev/ublk-control is missing): load the driver with \
                 modprobe ublk_drv, or leave out --ublk for a loop device"
                    .to_owned(),
            )
        })?;
        let ring = IoUring::builder()
            .build(4)
            .map_err(|error| AttachError::io("use io_uring for", path, error))?;
        Ok(Control { file, ring })
    }

    /// Sends a command and waits until it is carried out.
    fn send_command(
        &mut self,
        command: u32,
        id: u32,
        address: u64,
        length: u16,
        data: u64,
    ) -> io::Result<()> {
        let fields = abi::control_command(id, address, length, data);
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, command).cmd(fields).build();
        // SAFETY: the data of the command outlives this call, which waits for its completion.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        while let Err(error) = self.ring.submit_and_wait(1) {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        match self.ring.completion().next().map(|it| it.result()) {
            Some(0..) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Device {
    /// Creates and starts a device for the drive.
    ///
    /// # Errors
    /// Returns an error if the kernel has no ublk driver, or one without user copy, or if this user may not
    /// create a device.
    pub fn start(engine: &Arc<Engine>, timer: &Arc<Timer>) -> Result<Device, AttachError> {
        let mut control = Control::open()?;
        let cannot =
            |error| AttachError::io("make a ublk device by", Path::new(abi::CONTROL), error);
        let mut info = DeviceInfo {
            queues: QUEUES,
            depth: DEPTH,
            max_io_bytes: BYTES_MAX,
            id: u32::MAX,
            flags: abi::ENCODED | abi::USER_COPY,
            ..DeviceInfo::default()
        };
        let address = std::ptr::from_mut(&mut info) as u64;
        control
            .send_command(abi::ADD_DEVICE, u32::MAX, address, size_of::<DeviceInfo>() as u16, 0)
            .map_err(cannot)?;
        // The driver has filled in the structure.
        let info = std::hint::black_box(info);
        let path = format!("/dev/ublkb{}", info.id);
        let mut device =
            Device { control, id: info.id, threads: Vec::new(), path, is_stopped: false };
        if info.flags & abi::USER_COPY == 0 {
            let message =
                "this kernel's ublk cannot copy data by itself: Linux 6.5 or later is needed";
            return Err(AttachError::System(message.to_owned()));
        }
        device.set_parameters(engine).map_err(cannot)?;
        // The file can be opened only once, so the queues share it.
        let path = format!("/dev/ublkc{}", device.id);
        let file = open_when_there(&path)
            .map_err(|error| AttachError::io("open", Path::new(&path), error))?;
        for number in 0..QUEUES {
            let file = file.try_clone().map_err(cannot)?;
            device.start_queue(file, number, engine.clone(), timer.clone()).map_err(cannot)?;
        }
        let pid = u64::from(std::process::id());
        device.control.send_command(abi::START_DEVICE, device.id, 0, 0, pid).map_err(cannot)?;
        Ok(device)
    }

    /// Returns the path of the block device.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn set_parameters(&mut self, engine: &Engine) -> io::Result<()> {
        let unit = engine.unit().max(SECTOR);
        let most = (u32::MAX as u64 / unit * unit / SECTOR) as u32;
        let shift = unit.ilog2() as u8;
        let mut parameters = Parameters {
            length: size_of::<Parameters>() as u32,
            types: abi::BASIC,
            attributes: abi::CACHE_AND_FUA,
            logical_shift: SECTOR.ilog2() as u8,
            physical_shift: shift,
            optimal_shift: shift,
            minimal_shift: shift,
            max_sectors: BYTES_MAX / SECTOR as u32,
            sectors: engine.capacity() / SECTOR,
            ..Parameters::default()
        };
        if engine.trims() {
            parameters.types |= abi::DISCARDS;
            parameters.discard_granularity = unit as u32;
            parameters.max_discard_sectors = most;
            parameters.max_zeroes_sectors = most;
            parameters.max_discard_segments = 1;
        }
        let address = std::ptr::from_mut(&mut parameters) as u64;
        self.control.send_command(
            abi::SET_PARAMETERS,
            self.id,
            address,
            parameters.length as u16,
            0,
        )
    }

    fn start_queue(
        &mut self,
        file: File,
        number: u16,
        engine: Arc<Engine>,
        timer: Arc<Timer>,
    ) -> io::Result<()> {
        let mut queue = Queue::open(file, number, engine, timer)?;
        let (begun, has_begun) = mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("ublk {number}"));
        self.threads.push(thread.spawn(move || {
            let outcome = queue.fetch();
            let is_begun = outcome.is_ok();
            // The thread that starts the device waits for this.
            let _ = begun.send(outcome);
            if is_begun { queue.serve() } else { Ok(()) }
        })?);
        has_begun.recv().map_err(io::Error::other)?
    }

    /// Stops and deletes the device; later requests to it fail.
    ///
    /// # Errors
    /// Returns an error if a command fails or a queue has failed.
    pub fn stop(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_stopped, true) {
            return Ok(());
        }
        let mut outcome = self.control.send_command(abi::STOP_DEVICE, self.id, 0, 0, 0);
        for thread in self.threads.drain(..) {
            let served =
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a queue has panicked")));
            outcome = outcome.and(served);
        }
        outcome.and(self.control.send_command(abi::DELETE_DEVICE, self.id, 0, 0, 0))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // A device that is left is visible in /dev.
        let _ = self.stop();
    }
}

/// Returns true if `path` is a ublk device that somebody has open exclusively, as a mount does.
pub fn is_used(path: &str) -> bool {
    let exclusively = || OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path);
    path.starts_with("/dev/ublkb")
        && exclusively().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

/// Opens the device file, once the system has created it.
fn open_when_there(path: &str) -> io::Result<File> {
    let began = Instant::now();
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && began.elapsed() < CREATE_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}
