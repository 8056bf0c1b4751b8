//! Opening an image, closing it, and power cuts.

use std::io;
use std::path::Path;
use std::time::Instant as HostInstant;

use serde::{Deserialize, Serialize};
use ssdlab_model::flush::{FlushHandling, WriteCache};
use ssdlab_model::recovery::{Recovery, RecoveryError};
use ssdlab_model::trim::ReadsAfterTrim;
use ssdlab_units::{Instant, LogicalUnit};

use super::clock::Clock;
use super::group_commit::GroupCommit;
use super::helper::backlog_max;
use super::in_flight::InFlight;
use super::iolog::Iolog;
use super::statistics::{LatencyRecorder, Statistics};
use super::tables::restore;
use super::{Engine, Errno, Inner, Time};
use crate::drive::{self, Model};
use crate::error::AttachError;
use crate::image::Image;
use crate::image::damage::Damage;
use crate::image::state::State;
use crate::mapped_image::{Mapped, keeps_pages};
use crate::recover::{Recovered, recover};
use crate::status::{Blocks, CELLS_MAX, MapCache, Status, histogram_by_share};
use crate::store::Store;
use crate::sync::{Condvar, Mutex};

/// Options of an attached drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Kind of time in which requests are answered.
    pub time: Time,
    /// True to answer flushes without doing anything.
    pub lie_about_flush: bool,
    /// True to accept trims without doing anything.
    pub drop_trim: bool,
    /// Number of writes and trims after which power is cut; `None` for no power cut.
    pub power_cut_after: Option<u64>,
    /// True to open a drive that has lost promised data in units that cannot be known: units may then hold
    /// older data.
    pub accept_loss: bool,
    /// True to change nothing, in the drive or in its image. The image has to be opened read-only, too.
    pub read_only: bool,
    /// Instant of the host's clock at which the drive's clock begins to run; `None` for the instant of opening.
    /// If it lies far ahead, the clock runs only with the arrival times of requests.
    pub began: Option<HostInstant>,
}

/// State in which an image was found when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The image was never attached before.
    New,
    /// The image was closed in order.
    Clean,
    /// Power was cut, or the program or the machine had ended: the drive has recovered.
    Recovered(Recovery),
    /// The image was closed in order, but the tables that were saved then are damaged or refused by this
    /// version: the drive has recovered from its flash.
    WithoutTables(Recovery),
}

impl Opened {
    /// Returns the outcome of the recovery; `None` if the drive did not have to recover.
    pub fn recovery(&self) -> Option<Recovery> {
        match *self {
            Opened::New | Opened::Clean => None,
            Opened::Recovered(recovery) | Opened::WithoutTables(recovery) => Some(recovery),
        }
    }
}

/// State in which an image was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// In order: the next attach opens the image quickly.
    Clean,
    /// All data is there, and the drive recovers when it is opened.
    Complete,
    /// Power was cut before.
    Cut,
    /// The image was attached read-only, and is as it was before.
    Unchanged,
}

impl Engine {
    /// Opens the drive in `image`.
    ///
    /// # Errors
    /// Returns an error if the drive cannot be opened from what is in the image, or that cannot be read or
    /// written.
    pub fn open(mut image: Image, options: Options) -> Result<(Engine, Opened), AttachError> {
        let path = image.path().to_owned();
        if options.lie_about_flush {
            image.change("controller.flush", "ignored")?;
        }
        if options.drop_trim {
            image.change("controller.trim", "off")?;
        }
        let cannot = |error| AttachError::io("open", &path, error);
        let configuration = image.configuration().clone();
        let file = image.file().clone();
        let (before, read_only) = (image.state(), image.is_read_only());
        let OpenedDrive { mut model, opened, clock, damage, are_trims_intact } =
            open_model(image, options, &path)?;
        let (gate, ahead_writes) = (model.store().gate(), model.store().ahead_writes());
        let group_commit = GroupCommit::new(file.clone());
        let layout = model.store().image().layout();
        let (data, part) = (layout.data, layout.data_of_part(0).1);
        let backlog_max = backlog_max(layout.program_size());
        let mapped = file.file().and_then(|file| Mapped::of(file, data, layout.end));
        let keeps_pages = file.file().is_some_and(|file| keeps_pages(file, data, part));
        let (geometry, flush) = (&configuration.geometry, configuration.mechanisms.flush);
        let mut inner = Inner {
            model,
            busy_until: clock,
            latest: clock,
            is_cut: false,
            is_closed: false,
            writes_left: options.power_cut_after,
            recorder: LatencyRecorder::new(),
            iolog: None,
            units: geometry.logical_units(),
            backlog_max,
            helper_waiters: 0,
            in_flight: InFlight::default(),
            answers: Vec::new(),
            completions: Vec::new(),
            has_answers_to_check: false,
            has_clock_thread: false,
        };
        let is_whole = damage.all().next().is_none();
        inner.record_attach(before, &opened, are_trims_intact, is_whole).map_err(cannot)?;
        let engine = Engine {
            inner: Mutex::new(inner),
            file,
            gate,
            mapped,
            keeps_pages,
            ahead_writes,
            helper_wanted: Condvar::new(),
            step_done: Condvar::new(),
            answered: Condvar::new(),
            group_commit,
            clock: Clock::new(options.time, options.began.unwrap_or_else(HostInstant::now), clock),
            unit: geometry.unit_size().bytes(),
            capacity: geometry.capacity().bytes(),
            has_plp: configuration.buffer.protected,
            flush_waits: !configuration.buffer.protected && flush.handling == FlushHandling::Honest,
            writes_through: !configuration.buffer.protected
                && flush.write_cache == WriteCache::WriteThrough,
            read_only,
            trims: configuration.trim,
            blank: configuration.mechanisms.trim.reads_after.byte(),
            has_defined_unmapped_reads: configuration.mechanisms.trim.reads_after
                != ReadsAfterTrim::Undefined,
            configuration,
            damage,
        };
        Ok((engine, opened))
    }

    /// Closes the drive in order, as a host does at power-off. Later requests fail.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written. What was flushed is there, and the drive recovers when
    /// it is opened.
    pub fn close(&self) -> Result<Outcome, AttachError> {
        let mut inner = self.lock();
        if inner.is_cut {
            return Ok(Outcome::Cut);
        }
        if std::mem::replace(&mut inner.is_closed, true) {
            return Ok(Outcome::Complete);
        }
        self.helper_wanted.notify_one();
        if self.read_only {
            return Ok(Outcome::Unchanged);
        }
        let path = inner.model.store().image().path().to_owned();
        let at = self.clock.now(inner.busy_until).max(inner.busy_until);
        let outcome = inner.close(at).map_err(|error| AttachError::io("close", &path, error));
        self.release(inner);
        outcome
    }

    /// Cuts power now: the write buffer is lost, unless the drive has PLP, and programs and erases in flight
    /// are destroyed. Later requests fail.
    pub fn power_cut(&self) {
        let mut inner = self.lock();
        let at = self.clock.now(inner.busy_until).max(inner.latest);
        inner.cut_power(self, at);
        self.release(inner);
    }

    /// Records the host's requests from now on in a new file at `path`, as an iolog of fio's.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn record(&self, path: &Path) -> Result<(), AttachError> {
        let iolog =
            Iolog::begin(path).map_err(|error| AttachError::io("record at", path, error))?;
        self.lock().iolog = Some(iolog);
        Ok(())
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// Returns an error if a part of the recording could not be written.
    pub fn end_recording(&self) -> io::Result<()> {
        self.lock().iolog.take().map_or(Ok(()), Iolog::end)
    }

    /// Fills in the drive's internal state as it is now; `status` fills in what the engine does not know.
    pub(crate) fn fill_status(&self, status: &mut Status) {
        let mut inner = self.lock();
        status.map_cache = inner.model.map_in_ram().map(MapCache::from);
        let model = &inner.model;
        status.clock_s = inner.busy_until.nanos() as f64 / 1e9;
        status.counters = model.counters();
        status.write_amplification = status.counters.write_amplification();
        status.wear = model.wear();
        status.free_blocks = model.free_blocks();
        status.blocks_by_valid_share = histogram_by_share(&model.blocks_by_valid_units());
        status.attribution = model.attribution();
        status.requests = inner.recorder.statistics();
    }

    /// Returns a picture of the blocks as they are now.
    pub fn blocks(&self) -> Blocks {
        let mut cells = Vec::new();
        let together = self.lock().model.fill_cells(&mut cells, CELLS_MAX);
        Blocks::new(self.configuration.geometry.blocks(), together as u32, &cells)
    }

    /// Returns the damage that was found when the image was opened, the repaired damage included.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Returns the statistics of all requests since the drive was attached.
    pub fn statistics(&self) -> Statistics {
        self.lock().recorder.statistics()
    }

    /// Returns true if power was cut.
    pub fn is_cut(&self) -> bool {
        self.lock().is_cut
    }

    /// Returns true if no unit is mapped, as on a new drive.
    pub fn is_blank(&self) -> bool {
        self.lock().model.next_mapped(LogicalUnit(0)).is_none()
    }

    /// Returns the error with which writes and flushes fail since a sync failed; `None` if none has.
    pub fn failed(&self) -> Option<Errno> {
        self.group_commit.failed()
    }
}

impl Inner {
    /// Marks the image as in use, and begins a new log of trims after a crash or if the log is damaged.
    fn record_attach(
        &mut self,
        before: State,
        opened: &Opened,
        are_trims_intact: bool,
        is_whole: bool,
    ) -> io::Result<()> {
        let state = State { is_clean: false, attached: before.attached + 1, ..before };
        let store = self.model.store();
        store.forget_survey();
        store.set_state(state)?;
        if !is_whole {
            // The second write goes to the slots of the other generation.
            store.set_state(state)?;
        }
        if are_trims_intact && opened.recovery().is_none() {
            return Ok(());
        }
        self.compact_trims()
    }

    fn close(&mut self, at: Instant) -> io::Result<Outcome> {
        self.drain();
        let done = self.model.shut_down(at);
        // Erased data is punched out by this thread from here on.
        self.model.store().set_has_helper(false);
        self.carry_out()?;
        self.model.store().sync()?;
        let (length, sum) = match self.write_tables()? {
            Some(written) => written,
            None => return Ok(Outcome::Complete),
        };
        let store = self.model.store();
        let state = State {
            is_clean: true,
            clock: done.nanos(),
            checkpoint_length: length,
            checkpoint_sum: sum,
            dumps_void: store.latest_dump(),
            ..store.image().state()
        };
        store.set_state(state)?;
        Ok(Outcome::Clean)
    }

    pub(super) fn cut_power(&mut self, engine: &Engine, at: Instant) {
        if self.is_cut || self.is_closed {
            return;
        }
        self.advance_to(at);
        let torn = self.model.torn();
        // What cannot be written here is lost, as it may be in a power cut.
        if engine.has_plp {
            let _ = self.save_plp_data();
        }
        let _ = self.model.store().cut(&torn);
        self.fail_all();
        self.is_cut = true;
    }
}

/// A drive that was opened.
struct OpenedDrive {
    model: Box<dyn Model>,
    opened: Opened,
    /// The drive's clock at that moment.
    clock: Instant,
    damage: Damage,
    /// True if the log of trims is undamaged, in both copies.
    are_trims_intact: bool,
}

/// Opens the drive: with its saved tables if they are sound, otherwise from its flash.
fn open_model(mut image: Image, options: Options, path: &Path) -> Result<OpenedDrive, AttachError> {
    let (state, configuration) = (image.state(), image.configuration().clone());
    let cannot = |error| AttachError::io("read", path, error);
    let cannot_write = |error| AttachError::io("write", path, error);
    let mut damage = image.damage().clone();
    check_loss(&damage, options, path)?;
    image.repair_header().map_err(cannot_write)?;
    if state.is_clean {
        // If the tables are refused, the image is needed once more below.
        let mut store = Store::new(image.clone());
        let (parts, _) = store.read_erases().map_err(cannot)?;
        let are_trims_intact = store.resume_trims().map_err(cannot)?;
        if let Ok(mut model) = restore(&image, store).map_err(cannot)? {
            model.store().repair_erases(&parts).map_err(cannot_write)?;
            if !parts.is_empty() {
                let what = "a copy of some entries of the block table is damaged; the other is \
                            intact";
                damage.found.push(what.to_owned());
            }
            if !are_trims_intact {
                damage.found.push("the log of trims is damaged; it is rewritten".to_owned());
            }
            let clock = Instant::from_nanos(state.clock);
            return Ok(OpenedDrive {
                model,
                opened: Opened::Clean,
                clock,
                damage,
                are_trims_intact,
            });
        }
        // From here on the image counts as not closed in order, even if opening it fails later.
        image.set_state(State { is_clean: false, ..state }).map_err(cannot_write)?;
    }
    let mut store = Store::new(image.clone());
    if state.attached == 0 {
        // A drive that was never attached holds nothing, whatever kept it from being attached.
        let refused = |error| AttachError::Recovery {
            path: path.to_owned(),
            source: RecoveryError::from(error),
        };
        let model = drive::new(&configuration, store).map_err(refused)?;
        let (opened, clock) = (Opened::New, Instant::START);
        return Ok(OpenedDrive { model, opened, clock, damage, are_trims_intact: true });
    }
    let survey = store.survey().map_err(cannot)?;
    check_loss(&survey.damage, options, path)?;
    damage.add(&survey.damage);
    let Recovered { mut model, recovery, survey } = recover(&image, store, survey)?;
    model.store().repair(&survey).map_err(cannot_write)?;
    let opened =
        if state.is_clean { Opened::WithoutTables(recovery) } else { Opened::Recovered(recovery) };
    Ok(OpenedDrive { model, opened, clock: recovery.ready_at, damage, are_trims_intact: true })
}

/// Returns an error if the drive has lost promised data in units that cannot be known, unless `options` accepts
/// the loss.
fn check_loss(damage: &Damage, options: Options, path: &Path) -> Result<(), AttachError> {
    match damage.refused.first() {
        Some(lost) if !options.accept_loss => Err(AttachError::image(
            path,
            format!(
                "{lost}; copy the image, then run `ssdlab check --repair` to open the drive with \
                 what is left, where units may hold older data"
            ),
        )),
        _ => Ok(()),
    }
}
