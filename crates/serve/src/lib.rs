//! The page of this machine: runs, experiments, attached drives and the machine itself, in a browser.
//!
//! | role | where |
//! | --- | --- |
//! | the server, from a [`Site`] and a socket | [`Server`] |
//! | who may ask for what | [`Access`], [`Token`] |
//! | runs under way in other processes | [`live`] |
//! | wear and temperature of drives, noted from time to time | [`Site::every`] |
//!
//! Pages are made here and read without JavaScript; its only script puts parts that changed in the place of
//! those that it has. Real drives are read and never written: experiments that are started from a page run on
//! simulated drives alone.

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

pub use access::{Access, TOKEN_LEAST, Token};
use app::App;
use runner::Runner;

/// After so long experiments that were asked to end are left alone.
const END_TIME: Duration = Duration::from_secs(60);

/// What is served.
#[derive(Clone, Debug)]
pub struct Site {
    /// Where runs are kept.
    pub store: PathBuf,
    /// The program that runs experiments: `ssdlab`.
    pub program: PathBuf,
    /// A captured machine to show in place of this one.
    pub captured: Option<PathBuf>,
    /// How often to note wear and temperature of the drives, if at all.
    pub every: Option<Duration>,
    /// Who may ask for what.
    pub access: Access,
}

/// A server that runs in threads of its own.
#[derive(Debug)]
pub struct Server {
    runtime: tokio::runtime::Runtime,
    app: Arc<App>,
}

impl Server {
    /// Begins to answer at `listener`. What goes wrong with the schedule is told to `warn`.
    ///
    /// # Errors
    /// When the system gives no thread, or the socket cannot be used.
    pub fn start(
        site: Site,
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
            runner: Runner::new(site.program, site.store.clone()),
            hub: Arc::default(),
            machine: machine::Machine::new(site.captured),
            access: site.access,
            store: site.store,
        });
        if let Some(every) = site.every {
            runtime.spawn(schedule::note_figures(app.clone(), every, Arc::new(warn)));
        }
        runtime.spawn(server::serve(listener, app::router(app.clone())));
        Ok(Server { runtime, app })
    }

    /// Ends it: experiments that it has started are asked to end, and keep what they have measured.
    pub fn stop(self) {
        self.app.runner.stop_all();
        let began = std::time::Instant::now();
        while self.app.runner.is_running() && began.elapsed() < END_TIME {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.runtime.shutdown_background();
    }
}
