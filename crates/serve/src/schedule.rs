//! Regular recording of the wear and temperature of drives.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ssdlab_lab::store::Store;

use crate::app::App;
use crate::machine::drive_figures;

/// Longest time until the next attempt after an error.
const RETRY_TIME: Duration = Duration::from_secs(60);

/// Records the figures of all drives at the interval `every`, without end; at once if it is due.
pub(crate) async fn record_figures(
    app: Arc<App>,
    every: Duration,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
) {
    loop {
        let app_clone = app.clone();
        let recorded = tokio::task::spawn_blocking(move || record_if_due(&app_clone, every)).await;
        let wait = match recorded {
            Ok(Ok(wait)) => wait,
            Ok(Err(message)) => {
                warn(&message);
                every.min(RETRY_TIME)
            }
            Err(_) => return,
        };
        tokio::time::sleep(wait).await;
    }
}

/// Records the figures if that is due; returns the time until it is due again.
fn record_if_due(app: &App, every: Duration) -> Result<Duration, String> {
    let failed =
        |error: &dyn std::error::Error| format!("wear and temperature were not recorded: {error}");
    let mut store = Store::open(&app.store).map_err(|error| failed(&error))?;
    let last = store.drive_figures_time().map_err(|error| failed(&error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wait = time_until_due(last, i64::try_from(now.as_secs()).unwrap_or(i64::MAX), every);
    if wait > Duration::ZERO {
        return Ok(wait);
    }
    let diagnosis = app.machine.diagnosis().map_err(|error| failed(&error))?;
    store.add_drive_figures(&drive_figures(&diagnosis)).map_err(|error| failed(&error))?;
    Ok(every)
}

/// Returns the time until `every` has passed since `last`; zero if the clock was set back before `last`.
fn time_until_due(last: Option<i64>, now: i64, every: Duration) -> Duration {
    let Some(since) = last.and_then(|last| u64::try_from(now - last).ok()) else {
        return Duration::ZERO;
    };
    every.saturating_sub(Duration::from_secs(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_when_the_time_has_passed_also_over_a_restart() {
        let day = Duration::from_secs(86_400);
        assert_eq!(time_until_due(None, 1_000, day), Duration::ZERO);
        assert_eq!(time_until_due(Some(1_000), 1_000, day), day);
        assert_eq!(time_until_due(Some(1_000), 1_000 + 86_000, day), Duration::from_secs(400));
        assert_eq!(time_until_due(Some(1_000), 1_000 + 90_000, day), Duration::ZERO);
        assert_eq!(
            time_until_due(Some(2_000), 1_000, day),
            Duration::ZERO,
            "the clock was set back"
        );
    }
}
