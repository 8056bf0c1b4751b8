//! The drive of the playground: the model's types that the other modules use.

pub(crate) use ssdlab_model::ftl::{Answer, Command, Host, Port, RequestTag, Ssd};
pub(crate) use ssdlab_model::power_cut::recording::Recording;
