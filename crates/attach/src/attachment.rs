//! A drive that is attached: the engine, the ways to reach it, and their order at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, Opened, Options, Outcome};
use crate::error::AttachError;
use crate::image::Image;
use crate::nbd::{Address, Server};
use crate::timer::Timer;

/// How a drive is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// By NBD.
    Nbd(Address),
}

/// A drive that is attached.
#[derive(Debug)]
pub struct Attachment {
    image: PathBuf,
    engine: Arc<Engine>,
    timer: Arc<Timer>,
    opened: Opened,
    server: Option<Server>,
    place: String,
}

/// How often a drive that nobody asks anything of is looked after.
const TICK: Duration = Duration::from_millis(20);

impl Attachment {
    /// Attaches the drive in `image`.
    ///
    /// # Errors
    /// When the image cannot be opened, or the drive cannot be reached that way.
    pub fn new(image: &Path, route: &Route, options: Options) -> Result<Attachment, AttachError> {
        let opened = Image::open(image)?;
        let name = opened.profile().name().to_owned();
        let (engine, opened) = Engine::open(opened, options)?;
        let engine = Arc::new(engine);
        let timer =
            Timer::start().map_err(|error| AttachError::io("start a thread for", image, error))?;
        let mut attachment = Attachment {
            image: image.to_owned(),
            engine,
            timer: Arc::new(timer),
            opened,
            server: None,
            place: String::new(),
        };
        if let Err(error) = attachment.reach(route, &name) {
            // The error of the route is the one to tell.
            let _ = attachment.detach();
            return Err(error);
        }
        Ok(attachment)
    }

    fn reach(&mut self, route: &Route, name: &str) -> Result<(), AttachError> {
        match route {
            Route::Nbd(address) => {
                let server = Server::start(self.engine.clone(), self.timer.clone(), address, name)?;
                self.place = server.uri().to_owned();
                self.server = Some(server);
            }
        }
        Ok(())
    }

    /// How the image was opened.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Where the drive is: a device, a file or an address.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The drive.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Looks after the drive until `stop` says so or power is cut.
    pub fn run(&self, mut stop: impl FnMut() -> bool) {
        while !stop() && !self.engine.is_cut() {
            std::thread::sleep(TICK);
            self.engine.tick();
        }
    }

    /// Detaches the drive in order: nobody reaches it any more, all is flushed, the image is closed.
    ///
    /// # Errors
    /// When the image cannot be closed; what was flushed is there.
    pub fn detach(&mut self) -> Result<Outcome, AttachError> {
        if let Some(mut server) = self.server.take() {
            server.close();
        }
        self.engine.close()
    }

    /// The image.
    pub fn image(&self) -> &Path {
        &self.image
    }
}
