//! `attach`: makes an image a block device.

use std::time::{Duration, Instant};

use ssdlab_attach::attachment::{Attachment, Route};
use ssdlab_attach::engine::{Opened, Options, Outcome, Time};
use ssdlab_attach::nbd::Address;

use crate::cli::{AttachArguments, AttachTime};
use crate::failure::{Exit, Failure, error_chain};
use crate::interrupt::Interrupt;
use crate::terminal::Terminal;

/// Time between two checks of whether a drive that is to be detached is still in use.
const USER_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Attaches an image until the user ends it.
pub fn attach(arguments: &AttachArguments, terminal: &Terminal) -> Result<(), Failure> {
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for signals".to_owned(), source)
    })?;
    let options = Options {
        time: match arguments.time {
            AttachTime::Real => Time::Real,
            AttachTime::Fast => Time::Fast,
        },
        lie_about_flush: arguments.lie_about_flush,
        drop_trim: arguments.drop_trim,
        power_cut_after: arguments.power_cut_after,
        read_only: arguments.read_only,
        ..Options::default()
    };
    let mut attachment = Attachment::new(&arguments.image, &route(arguments)?, options)?;
    if let Some(path) = &arguments.record {
        attachment.engine().record(path)?;
    }
    for damage in attachment.engine().damage().all() {
        terminal.note(&format!("DAMAGE  {}: {damage}", arguments.image.display()));
    }
    for note in attachment.notes() {
        terminal.note(note);
    }
    terminal.note(&opened_text(attachment.opened()));
    terminal.print(&format!("{}\n", attachment.place()))?;
    let mut is_cut = false;
    attachment.run(|| {
        if !is_cut && attachment.engine().is_cut() {
            is_cut = true;
            terminal.note("Power was cut: requests fail until the drive is attached again.");
        }
        interrupt.is_requested()
    });
    wait_for_users(&attachment, terminal);
    if let Err(error) = attachment.engine().end_recording() {
        let what = "cannot write the recording".to_owned();
        return Err(Failure::system(Exit::Failed, what, error));
    }
    let message = match attachment.detach()? {
        Outcome::Clean => "Detached; everything is in the image.",
        Outcome::Complete => "Detached; the drive will recover when it is attached again.",
        Outcome::Unchanged => "Detached; the image is as it was.",
        Outcome::Cut => "Power was cut; the drive will recover when it is attached again.",
    };
    terminal.note(message);
    Ok(())
}

/// Waits until no user of the drive would lose data by its end. A second signal ends the program at once.
fn wait_for_users(attachment: &Attachment, terminal: &Terminal) {
    let mut is_retry = false;
    while let Err(error) = attachment.release_if_unused(is_retry) {
        if attachment.engine().is_cut() {
            return;
        }
        if !std::mem::replace(&mut is_retry, true) {
            let reason = error_chain(&error).join(": ");
            terminal.note(&format!(
                "{reason}\nIt stays attached until nobody uses it, and is then detached. All \
                 writes so far are in the image. A second signal ends the program at once: later \
                 writes that were not synced are lost."
            ));
        }
        let until = Instant::now() + USER_POLL_INTERVAL;
        attachment.run(|| Instant::now() > until);
    }
}

fn route(arguments: &AttachArguments) -> Result<Route, Failure> {
    #[cfg(feature = "ublk")]
    if arguments.ublk {
        return Ok(Route::Ublk);
    }
    if let Some(address) = &arguments.nbd {
        return Ok(Route::Nbd(Address::parse(address)?));
    }
    if let Some(directory) = &arguments.file {
        return Ok(Route::File(directory.clone()));
    }
    let mount = arguments.mount.clone().map(|place| (place, arguments.fs.clone()));
    Ok(Route::Device { mount })
}

fn opened_text(opened: Opened) -> String {
    let (why, recovery) = match opened {
        Opened::New => return "A new drive.".to_owned(),
        Opened::Clean => return "The drive was detached in order.".to_owned(),
        Opened::Recovered(recovery) => {
            ("The drive was not detached in order and has recovered", recovery)
        }
        Opened::WithoutTables(recovery) => {
            let why = "The tables saved when the drive was detached could not be used, and it has \
                       recovered from its flash";
            (why, recovery)
        }
    };
    format!(
        "{why}: {} units found, {} saved of the buffer, {} of {} program units unreadable, {} on the \
         drive's clock.",
        recovery.units_found,
        recovery.units_saved,
        recovery.program_units_unreadable,
        recovery.program_units_read,
        recovery.ready_at.since(ssdlab_units::Instant::START),
    )
}
