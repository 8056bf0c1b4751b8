//! `serve`: shows runs, drives and this machine in the browser.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use ssdlab_host::Captured;
use ssdlab_lab::store::{Store, StoreError};
use ssdlab_serve::{Access, MIN_TOKEN_LENGTH, Server, ServerConfig, Token};

use crate::cli::ServeArguments;
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::run_store;
use crate::terminal::Terminal;

/// Environment variable that holds the token.
const TOKEN_VARIABLE: &str = "SSDLAB_TOKEN";
/// Shortest interval at which drives are read.
const MIN_RECORD_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Serves the page until it is interrupted.
pub fn serve(arguments: &ServeArguments, terminal: &Terminal) -> Result<(), Failure> {
    let given = token(arguments)?;
    let listen = arguments.listen;
    if !listen.ip().is_loopback() && given.is_none() {
        let message = format!(
            "other machines can reach {listen}, so the page needs a token: give it with \
             --token-file or {TOKEN_VARIABLE}"
        );
        return Err(Failure::new(Exit::Refused, anyhow::Error::msg(message)));
    }
    let record_interval = parse_every(&arguments.every)?;
    if let Some(path) = &arguments.from {
        Captured::open(path)?;
    }
    let failed = |what: String| move |source| Failure::system(Exit::Failed, what, source);
    let reading_needs_token = given.is_some();
    let token = match given {
        Some(token) => token,
        None => Token::random().map_err(failed("cannot make a token".to_owned()))?,
    };
    let program = std::env::current_exe().map_err(failed("cannot find ssdlab".to_owned()))?;
    let listener =
        TcpListener::bind(listen).map_err(failed(format!("cannot listen at {listen}")))?;
    let address = listener.local_addr().map_err(failed(format!("cannot listen at {listen}")))?;
    let interrupt = Interrupt::listen().map_err(failed("cannot listen for Ctrl-C".to_owned()))?;
    let store = run_store::path(arguments.store.store.as_deref())?;
    // Report permanent errors of the store at once. A missing store will be created, and a lock will be released.
    match Store::open_read_only(&store) {
        Ok(_) | Err(StoreError::Missing { .. } | StoreError::Locked { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let config = ServerConfig {
        store,
        program,
        captured: arguments.from.clone(),
        record_interval,
        access: Access { address, names: arguments.names.clone(), token, reading_needs_token },
    };
    let secret = config.access.token.text().to_owned();
    let terminal_clone = terminal.clone();
    let warn = move |message: &str| {
        terminal_clone.warn(&[message.to_owned()], "ssdlab serve goes on, and tries again later");
    };
    let server =
        Server::start(config, listener, warn).map_err(failed("cannot serve".to_owned()))?;
    terminal.print(&format!("http://{address}/\n"))?;
    if !reading_needs_token {
        terminal.note(&format!("To change things as well: http://{address}/token?token={secret}"));
    }
    terminal.note("Ctrl-C ends it.");
    while !interrupt.is_requested() {
        std::thread::sleep(POLL_INTERVAL);
    }
    server.stop();
    Ok(())
}

/// Returns the token that the user has given, or `None`.
fn token(arguments: &ServeArguments) -> Result<Option<Token>, Failure> {
    let (text, from) = match &arguments.token_file {
        Some(path) => (read_token(path)?, path.display().to_string()),
        None => match std::env::var(TOKEN_VARIABLE) {
            Ok(text) if !text.is_empty() => (text, TOKEN_VARIABLE.to_owned()),
            _ => return Ok(None),
        },
    };
    let wrong = || {
        Failure::usage(format!(
            "the token in {from} must have {MIN_TOKEN_LENGTH} characters or more: letters, digits, \
             '-', '_' and '.'; 'openssl rand -hex 16' makes one"
        ))
    };
    Token::chosen(text.trim()).ok_or_else(wrong).map(Some)
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let cannot =
        |source| Failure::system(Exit::Usage, format!("cannot read {}", path.display()), source);
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).map_err(cannot)?) & 0o077 != 0
    {
        let message =
            format!("other users can read {0}: 'chmod 600 {0}' prevents that", path.display());
        return Err(Failure::new(Exit::Refused, anyhow::Error::msg(message)));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

/// Parses the two words of `--every`.
fn parse_every(words: &[String]) -> Result<Option<Duration>, Failure> {
    let [time, what] = words else { return Ok(None) };
    if what != "doctor" {
        let message = format!("--every {time} {what}: only 'doctor' can be scheduled");
        return Err(Failure::usage(message));
    }
    let interval = humantime::parse_duration(time).map_err(|error| {
        Failure::usage(format!("--every {time}: {error}; write it as 1d or 6h"))
    })?;
    if interval < MIN_RECORD_INTERVAL {
        return Err(Failure::usage(format!("--every {time}: the shortest interval is 1m")));
    }
    Ok(Some(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_a_time_and_something_to_do() {
        let words = |time: &str, what: &str| [time.to_owned(), what.to_owned()];
        assert_eq!(parse_every(&[]).unwrap(), None);
        assert_eq!(parse_every(&words("1d", "doctor")).unwrap(), Some(Duration::from_secs(86_400)));
        for (time, what) in [("1d", "fragmentation"), ("soon", "doctor"), ("59s", "doctor")] {
            assert_eq!(
                parse_every(&words(time, what)).unwrap_err().exit(),
                Exit::Usage,
                "{time} {what}"
            );
        }
    }
}
