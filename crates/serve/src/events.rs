//! Live updates of pages by server-sent events.
//!
//! Each run or drive is polled once for all its watchers, and not at all if it has none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

/// Largest number of watchers at a time, over all topics.
const MAX_WATCHERS: usize = 64;

/// Subject of live updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// Run of the process with this number.
    Run(u32),
    /// Attached drive of the process with this number.
    #[cfg(target_os = "linux")]
    Drive(u32),
}

impl Topic {
    /// Returns the time between two polls.
    fn interval(self) -> Duration {
        match self {
            // Runs write their state twice a second.
            Topic::Run(_) => Duration::from_millis(500),
            #[cfg(target_os = "linux")]
            Topic::Drive(_) => Duration::from_millis(1_000),
        }
    }
}

/// Current state of a part of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Markup; empty before the first poll.
    pub(crate) html: Arc<str>,
    /// True if the part will not change any more.
    pub(crate) is_final: bool,
}

/// Watchers of all topics.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    topics: Mutex<HashMap<Topic, watch::Sender<Fragment>>>,
}

/// Error: there are too many watchers already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyWatchers;

impl Hub {
    /// Returns the fragments of `topic` from now on, until a final one. `poll` makes a fragment, and may take a while.
    /// If the topic is already watched, the `poll` of its first watcher stays in use.
    pub(crate) fn watch<F>(
        self: &Arc<Hub>,
        topic: Topic,
        poll: F,
    ) -> Result<impl Stream<Item = Fragment> + Send + use<F>, TooManyWatchers>
    where
        F: FnMut() -> Fragment + Send + 'static,
    {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers: usize = topics.values().map(watch::Sender::receiver_count).sum();
        if watchers >= MAX_WATCHERS {
            return Err(TooManyWatchers);
        }
        let receiver = match topics.get(&topic) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(Fragment::default());
                topics.insert(topic, sender);
                tokio::spawn(self.clone().poll_while_watched(topic, poll));
                receiver
            }
        };
        let some = WatchStream::new(receiver).filter(|fragment| !fragment.html.is_empty());
        Ok(some)
    }

    async fn poll_while_watched<F>(self: Arc<Hub>, topic: Topic, mut poll: F)
    where
        F: FnMut() -> Fragment + Send + 'static,
    {
        loop {
            let polled = tokio::task::spawn_blocking(move || {
                let fragment = poll();
                (fragment, poll)
            });
            let Ok((fragment, again)) = polled.await else {
                self.topics.lock().unwrap_or_else(PoisonError::into_inner).remove(&topic);
                return;
            };
            poll = again;
            let is_final = fragment.is_final;
            {
                let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(sender) = topics.get(&topic) else { return };
                sender.send_if_modified(|known| {
                    let differs = *known != fragment;
                    *known = fragment;
                    differs
                });
                // Later watchers start a new poll; present watchers still receive the last fragment.
                if is_final || sender.receiver_count() == 0 {
                    topics.remove(&topic);
                    return;
                }
            }
            tokio::time::sleep(topic.interval()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Runs a future on a runtime of a single thread.
    fn block_on_local<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(future)
    }

    fn fragment(number: u32) -> Fragment {
        Fragment { html: number.to_string().into(), is_final: number == 3 }
    }

    #[test]
    fn all_watchers_see_one_poll_and_the_last_fragment_ends_it() {
        let polls = Arc::new(AtomicU32::new(0));
        let hub = Arc::new(Hub::default());
        let counted = polls.clone();
        let poll = move || fragment(counted.fetch_add(1, Ordering::Relaxed) + 1);
        let all = block_on_local(async {
            let one = hub.watch(Topic::Run(1), poll).unwrap();
            let two = hub.watch(Topic::Run(1), || panic!("somebody looks already")).unwrap();
            let collect = |stream| async {
                let stream = Box::pin(stream);
                tokio_stream::StreamExt::collect::<Vec<Fragment>>(stream).await
            };
            let task = tokio::spawn(collect(one));
            let two = collect_all(two).await;
            (task.await.unwrap(), two)
        });
        assert_eq!(polls.load(Ordering::Relaxed), 3);
        assert_eq!(all.0.last().unwrap(), &fragment(3));
        assert_eq!(all.1.last().unwrap(), &fragment(3));
        assert!(hub.topics.lock().unwrap().is_empty());
    }

    async fn collect_all(stream: impl Stream<Item = Fragment>) -> Vec<Fragment> {
        stream.collect().await
    }

    #[test]
    fn nothing_is_polled_when_nobody_watches() {
        let hub = Arc::new(Hub::default());
        block_on_local(async {
            let stream = hub.watch(Topic::Drive(1), || fragment(1)).unwrap();
            drop(stream);
            while !hub.topics.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn watchers_are_limited() {
        let hub = Arc::new(Hub::default());
        block_on_local(async {
            let watch = |pid| hub.watch(Topic::Run(pid), || fragment(1));
            let all: Vec<_> = (0..MAX_WATCHERS as u32).map(|pid| watch(pid).unwrap()).collect();
            assert!(watch(1_000).is_err());
            drop(all);
            assert!(watch(1_000).is_ok());
        });
    }
}
