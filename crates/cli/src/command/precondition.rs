//! `precondition`: makes a preconditioned drive, and saves it.

use ssdlab_lab::memory::MemoryEstimate;
use ssdlab_lab::precondition::{self, CacheFill, Preconditioning, State, Workload, WriteAmount};
use ssdlab_lab::{LabError, Target};
use ssdlab_units::Nanoseconds;

use crate::cli::{PreconditionArguments, PreconditionCache, PreconditionState};
use crate::estimate;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::memory;
use crate::output_file::CreatedDirectories;
use crate::progress::Progress;
use crate::terminal::Terminal;

/// Makes a preconditioned drive, and saves it.
pub fn precondition(arguments: &PreconditionArguments, terminal: &Terminal) -> Result<(), Failure> {
    let changes: Vec<String> =
        arguments.set.iter().map(|(key, value)| format!(",{key}={value}")).collect();
    let text = format!("{}{}", arguments.target, changes.concat());
    let target = Target::seeded(&text, arguments.seed.number)?;
    let Target::Simulated { name, profile } = &target else {
        return Err(Failure::usage(format!(
            "'{text}' is not a new simulated drive, and only a new one can be preconditioned; \
             name a profile, as in sim:toshiba-xg5 (stacks take preconditioned drives as members)"
        )));
    };
    let written = match &arguments.written {
        Some(text) => Some(
            WriteAmount::parse(text)
                .map_err(|error| Failure::usage(format!("--written: {error}")))?,
        ),
        None => None,
    };
    let state = match arguments.state {
        PreconditionState::New => State::New,
        PreconditionState::Sequential => State::Sequential,
        PreconditionState::Random => State::Random,
        PreconditionState::Steady => State::Steady,
    };
    if state == State::New && written.is_some() {
        return Err(Failure::usage(
            "--written: --state new writes nothing; name another --state".to_owned(),
        ));
    }
    let workload = match &arguments.hot {
        None => Workload::Uniform,
        Some(_) if state != State::Steady => {
            return Err(Failure::usage("--hot needs --state steady".to_owned()));
        }
        Some(text) => precondition::parse_hot_cold(text)
            .map_err(|error| Failure::usage(format!("--hot: {error}")))?,
    };
    let cache = match arguments.cache {
        None | Some(PreconditionCache::Empty) => CacheFill::Empty,
        Some(PreconditionCache::Full) => CacheFill::Full,
    };
    if arguments.cache.is_some() && state != State::Steady {
        return Err(Failure::usage("--cache needs --state steady".to_owned()));
    }
    let stored_for = match &arguments.stored_for {
        None => Nanoseconds::ZERO,
        Some(text) => precondition::parse_storage_time(text)
            .map_err(|error| Failure::usage(format!("--stored-for: {error}")))?,
    };
    let _directories = CreatedDirectories::create_parent(&arguments.output).map_err(|source| {
        let what = format!("--output {}: it cannot be written there", arguments.output.display());
        Failure::system(Exit::Usage, what, source)
    })?;
    precondition::check_save_path(&arguments.output, arguments.force)?;
    if let Some(need) = MemoryEstimate::of_preconditioning(&target).filter(|_| state != State::New)
    {
        memory::check(&target, &need)?;
        memory::announce(&need, terminal);
    }
    let interrupt = Interrupt::listen().map_err(|source| {
        Failure::system(Exit::Failed, "cannot listen for Ctrl-C".to_owned(), source)
    })?;
    let preconditioning = Preconditioning {
        state,
        written,
        stored_for,
        workload,
        cache,
        seed: arguments.seed.number,
    };
    let expected = {
        let drive = profile.configuration().map_err(LabError::from)?;
        estimate::announce_preconditioning(&drive, &preconditioning, terminal)
    };
    let mut progress = Progress::new(terminal, interrupt, expected);
    let outcome = precondition::precondition(name, profile, preconditioning, &mut progress);
    progress.finish();
    let (mut drive, history) = outcome?;
    precondition::save(&mut drive, profile, &history, &arguments.output, arguments.force)?;
    let path = arguments.output.display().to_string();
    let place =
        if path.contains(std::path::is_separator) { path.clone() } else { format!("./{path}") };
    terminal.note(&format!("{name}: {history}.\nSaved as {path}; use it as sim:{place}"));
    Ok(())
}
