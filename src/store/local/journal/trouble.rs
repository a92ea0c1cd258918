//! State of a failing disk: times of failed syncs, whether the store accepts writes, and the time
//! of the next probe. It must not access the disk.

use std::{collections::VecDeque, io, time::Duration};

use crate::{
    env::{DiskShortage, shortage},
    store::StoreError,
};

/// Time for which a failure is reported when no write follows it.
const REPORTED_FOR: Duration = Duration::from_secs(10);
/// Consecutive failed syncs after which the store refuses writes until a probe succeeds.
const IN_ROW_MAX: u32 = 2;
/// Failed syncs within an hour with the same effect: each one excludes a file of the ring.
const PER_HOUR_MAX: usize = 8;
const HOUR: Duration = Duration::from_secs(3600);
/// The first and the longest pause before a probe. A failed probe doubles it, and so does a failed
/// sync after a successful probe.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(300);

const FAILED_IN_ROW: &str = "two syncs of the journal failed in a row; check the disk. The store \
    tries the disk again by itself and takes writes once a sync succeeds";
const FAILED_OFTEN: &str = "eight syncs of the journal failed within an hour; check the disk. The \
    store tries the disk again by itself and takes writes once a sync succeeds";

/// State of a failing disk. Times are of the monotonic clock.
#[derive(Default)]
pub(crate) struct DiskTrouble {
    /// Time and reason of the last failed write; `None` once a write succeeded.
    last: Option<(Duration, String)>,
    /// Times of the failed syncs within the last hour, oldest first.
    failed: VecDeque<Duration>,
    /// Number of failed syncs of this process that were counted.
    counted: u64,
    /// Time of the next probe; `None` while the store accepts writes.
    probe_at: Option<Duration>,
    /// The pause before the next probe; 0 before the first.
    pause: Duration,
    /// Resource that the last write lacked, and the time of the next check; `None` once there was
    /// enough.
    full: Option<(DiskShortage, Duration)>,
}

impl DiskTrouble {
    /// Records the result of a write. `failed` syncs failed in this process, `in_row` of them since
    /// the last successful one. Returns the reason if the store must refuse writes.
    pub(crate) fn record_write(
        &mut self,
        now: Duration,
        error: Option<&io::Error>,
        (failed, in_row): (u64, u32),
    ) -> Option<&'static str> {
        self.last = error.map(|error| (now, error.to_string()));
        self.record_space(now, error);
        self.failed.retain(|at| now.saturating_sub(*at) < HOUR);
        if self.failed.is_empty() {
            self.pause = Duration::ZERO;
        }
        if failed > std::mem::replace(&mut self.counted, failed) {
            self.failed.push_back(now);
        }
        let reason = match (error, in_row >= IN_ROW_MAX) {
            (Some(_), true) => FAILED_IN_ROW,
            (Some(_), false) if self.failed.len() >= PER_HOUR_MAX => FAILED_OFTEN,
            _ => return None,
        };
        self.schedule_probe(now);
        Some(reason)
    }

    /// Records whether writes have space, by the result of an attempt.
    pub(crate) fn record_space(&mut self, now: Duration, error: Option<&io::Error>) {
        self.full = error.and_then(shortage).map(|short| (short, now + PAUSE));
        if error.is_none() {
            self.last = None;
        }
    }

    /// Returns the missing resource while writes find no space.
    pub(crate) fn shortage(&self) -> Option<DiskShortage> {
        self.full.map(|(short, _)| short)
    }

    pub(crate) fn is_space_check_due(&self, now: Duration) -> bool {
        self.full.is_none_or(|(_, at)| at <= now)
    }

    /// Returns true if a sync failed within the last hour.
    pub(crate) fn has_recent_failure(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(crate) fn is_probe_due(&self, now: Duration) -> bool {
        self.probe_at.is_some_and(|at| at <= now)
    }

    /// Records the result of a probe. Returns whether the store accepts writes again.
    pub(crate) fn record_probe(&mut self, now: Duration, result: &io::Result<()>) -> bool {
        match result {
            Ok(()) => (self.probe_at, self.last) = (None, None),
            Err(error) => {
                self.last = Some((now, error.to_string()));
                self.schedule_probe(now);
            }
        }
        result.is_ok()
    }

    fn schedule_probe(&mut self, now: Duration) {
        self.pause = (2 * self.pause).clamp(PAUSE, PAUSE_MAX);
        self.probe_at = Some(now + self.pause);
    }

    /// Returns the reason of the last failed write, for `REPORTED_FOR`; after that it is no longer
    /// evidence for the next one.
    pub(crate) fn recent_reason(&self, now: Duration) -> Option<String> {
        let (since, why) = self.last.as_ref()?;
        (now.saturating_sub(*since) < REPORTED_FOR).then(|| why.clone())
    }
}

/// Returns the error of the store for a refused write.
pub(crate) fn write_error(doing: &'static str, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::DiskFull(shortage(error).unwrap_or_default())
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { reason: format!("{doing}: {error}") }
        }
        kind => {
            let coded = error.raw_os_error().map(io::Error::from_raw_os_error);
            let source = coded.unwrap_or_else(|| io::Error::new(kind, error.to_string()));
            StoreError::Io { doing, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn eio_error() -> io::Error {
        io::Error::from_raw_os_error(5)
    }

    #[test]
    fn two_failed_syncs_in_a_row_refuse_writes_and_double_the_probe_pause() {
        let mut trouble = DiskTrouble::default();
        assert_eq!(trouble.record_write(SECOND, Some(&eio_error()), (1, 1)), None);
        assert_eq!(trouble.record_write(SECOND, Some(&eio_error()), (2, 2)), Some(FAILED_IN_ROW));
        let mut now = SECOND;
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert!(!trouble.is_probe_due(now + (seconds - 1) * SECOND), "{seconds}");
            now += seconds * SECOND;
            assert!(trouble.is_probe_due(now), "{seconds}");
            assert!(!trouble.record_probe(now, &Err(eio_error())));
        }
        assert!(trouble.record_probe(now, &Ok(())) && !trouble.is_probe_due(now + HOUR));
    }

    #[test]
    fn from_the_eighth_failed_sync_within_an_hour_on_writes_are_refused() {
        let mut trouble = DiskTrouble::default();
        let mut refused = 0;
        for minute in 0..60 {
            let now = 60 * minute * SECOND;
            let failed = u64::from(minute) + 1;
            refused +=
                u32::from(trouble.record_write(now, Some(&eio_error()), (failed, 1)).is_some());
            assert_eq!(trouble.record_write(now + SECOND, None, (failed, 0)), None);
            assert!(trouble.has_recent_failure());
        }
        assert_eq!(refused, 60 - 7, "from the eighth on each failure refuses");
        assert_eq!(trouble.pause, PAUSE_MAX);
        assert_eq!(trouble.record_write(2 * HOUR, None, (60, 0)), None);
        assert!(!trouble.has_recent_failure() && trouble.pause.is_zero());
    }
}
