//! The drive that the playground runs: the one place that names it.

pub(crate) use ssdlab_model::ftl::{Answer, Command, Host, Port, RequestTag, Ssd};
pub(crate) use ssdlab_model::power_cut::recording::Recording;
