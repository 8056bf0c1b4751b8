//! Implementation of the subcommands, each in a file of its own.

mod advise;
#[cfg(target_os = "linux")]
mod attach;
#[cfg(target_os = "linux")]
mod check;
mod compare;
#[cfg(target_os = "linux")]
mod create;
#[cfg(target_os = "linux")]
mod detach;
mod doctor;
mod export;
mod generate;
mod import;
mod layers;
mod list;
#[cfg(target_os = "linux")]
mod power_cut;
mod precondition;
mod profile;
#[cfg(target_os = "linux")]
mod refresh;
mod run;
mod serve;
mod show;
#[cfg(target_os = "linux")]
mod status;
mod sweep;
mod truth;

use serde::Serialize;

#[cfg(target_os = "linux")]
use crate::cli::PowerCut;
use crate::cli::{Command, ProfileCommand};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Carries out a subcommand; returns the exit code.
pub fn execute(command: &Command, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        Command::Run(arguments) => run::run(arguments, terminal)?,
        Command::Sweep(arguments) => return sweep::sweep(arguments, terminal),
        Command::Precondition(arguments) => precondition::precondition(arguments, terminal)?,
        Command::Profile { what: ProfileCommand::New(arguments) } => {
            profile::new(arguments, terminal)?;
        }
        #[cfg(target_os = "linux")]
        Command::Create(arguments) => create::create(arguments, terminal)?,
        #[cfg(target_os = "linux")]
        Command::Attach(arguments) => attach::attach(arguments, terminal)?,
        #[cfg(target_os = "linux")]
        Command::Detach(arguments) => detach::detach(arguments, terminal)?,
        #[cfg(target_os = "linux")]
        Command::PowerCut { what: None, drive } => detach::power_cut(drive, terminal)?,
        #[cfg(target_os = "linux")]
        Command::Status(arguments) => status::status(arguments, terminal)?,
        #[cfg(target_os = "linux")]
        Command::Check(arguments) => return check::check(arguments, terminal),
        Command::Doctor(arguments) => return doctor::doctor(arguments, terminal),
        Command::Serve(arguments) => serve::serve(arguments, terminal)?,
        Command::Layers(arguments) => layers::layers(arguments, terminal)?,
        Command::Advise(arguments) => advise::advise(arguments, terminal)?,
        #[cfg(target_os = "linux")]
        Command::Refresh(arguments) => return refresh::refresh(arguments, terminal),
        Command::List { what } => list::list(what, terminal)?,
        Command::Show(arguments) => show::show(arguments, terminal)?,
        Command::Compare(arguments) => compare::compare(arguments, terminal)?,
        Command::Export(arguments) => export::export(arguments, terminal)?,
        Command::Truth(arguments) => truth::truth(arguments, terminal)?,
        Command::Import(arguments) => import::import(arguments, terminal)?,
        #[cfg(target_os = "linux")]
        Command::PowerCut { what: Some(PowerCut::Explore(arguments)), .. } => {
            return power_cut::power_cut(arguments, terminal);
        }
        Command::Completions { shell } => generate::completions(*shell, terminal)?,
        Command::Man { directory: Some(directory) } => {
            generate::man_pages(directory, terminal)?;
        }
        Command::Man { directory: None } => generate::man_page(terminal)?,
    }
    Ok(Exit::Done)
}

/// Returns indented JSON with a newline at its end, like that of reports.
fn json(value: &impl Serialize) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("lists have strings as keys and no maps");
    text.push('\n');
    text
}
