//! Arguments of `serve`: the web page of this machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::shared::StoreArguments;

pub(super) const SERVE_EXAMPLES: &str = "\
The page shows the runs that were kept, experiments under way, attached drives
and this machine's verdicts. Other machines can reach it only with a token.
Whoever has the token can start experiments on simulated drives, and tag and
delete runs; real drives are only read.

Examples:
  ssdlab serve
          at http://127.0.0.1:7373/, and nowhere else
  ssdlab serve --every 1d doctor
          and records wear and temperature of the drives each day
  ssdlab serve --listen 0.0.0.0:7373 --token-file token
          for other machines, too: every page asks for the token";

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Address and port; an address that other machines can reach needs a token
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7373")]
    pub listen: SocketAddr,
    /// File with the token, which every page then asks for; SSDLAB_TOKEN can hold it instead of a
    /// file [default: a new one, which is printed, and which only changes ask for]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Another host name that the pages are reached by, such as that of this machine; may be
    /// repeated
    #[arg(long = "name", value_name = "HOST")]
    pub names: Vec<String>,
    /// Record wear and temperature of the drives ('doctor') at this interval, a minute or more
    #[arg(long, num_args = 2, value_names = ["TIME", "WHAT"], conflicts_with = "from")]
    pub every: Vec<String>,
    /// Show a machine that was captured by 'ssdlab doctor --capture', instead of this one
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Store of runs.
    #[command(flatten)]
    pub store: StoreArguments,
}
