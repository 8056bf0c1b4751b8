//! Web page of this machine: runs, experiments, attached drives and the machine itself.
//!
//! | role | where |
//! | --- | --- |
//! | the server, from a [`ServerConfig`] and a socket | [`Server`] |
//! | who may ask for what | [`Access`], [`Token`] |
//! | runs under way in other processes | [`live`] |
//! | wear and temperature of drives, noted from time to time | [`ServerConfig::record_interval`] |
//!
//! Pages are rendered here and readable without JavaScript; the only script replaces parts of a page that have changed.
//! Real drives are read and never written: experiments that are started from a page run on simulated drives only.

mod access;
mod app;
mod events;
pub mod live;
mod machine;
mod pages;
mod runner;
mod schedule;
mod server;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use access::{Access, MIN_TOKEN_LENGTH, Token};
use app::App;
use runner::Runner;

/// Longest time to wait for experiments that were asked to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Configuration of the server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Path of the store of runs.
    pub store: PathBuf,
    /// Program that runs experiments: `ssdlab`.
    pub program: PathBuf,
    /// Captured machine to show instead of this one.
    pub captured: Option<PathBuf>,
    /// Interval at which wear and temperature of the drives are recorded; `None` for never.
    pub record_interval: Option<Duration>,
    /// Access rules.
    pub access: Access,
}

/// Running server, with threads of its own.
#[derive(Debug)]
pub struct Server {
    runtime: tokio::runtime::Runtime,
    app: Arc<App>,
}

impl Server {
    /// Starts to answer at `listener`. Errors of the regular recording of wear are passed to `warn`.
    ///
    /// # Errors
    /// Returns an error if the system provides no thread, or if the socket cannot be used.
    pub fn start(
        config: ServerConfig,
        listener: TcpListener,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> std::io::Result<Server> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("serve").enable_all().build()?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let app = Arc::new(App {
            runner: Runner::new(config.program, config.store.clone()),
            hub: Arc::default(),
            machine: machine::Machine::new(config.captured),
            access: config.access,
            store: config.store,
        });
        if let Some(every) = config.record_interval {
            runtime.spawn(schedule::record_figures(app.clone(), every, Arc::new(warn)));
        }
        runtime.spawn(server::serve(listener, app::router(app.clone())));
        Ok(Server { runtime, app })
    }

    /// Stops the server. Experiments that it has started are asked to end, and keep what they have measured.
    pub fn stop(self) {
        self.app.runner.stop_all();
        let began = std::time::Instant::now();
        while self.app.runner.is_running() && began.elapsed() < STOP_TIMEOUT {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.runtime.shutdown_background();
    }
}
