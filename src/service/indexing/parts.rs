//! The parts of one index: opened, made fewer, and kept as derived files; and what they are made of
//! is read. It must not choose whose turn it is.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::runtime::Handle;

use super::scope::{PartBytes, ScopeIndex, WantedEvents};
use crate::{
    event::pace,
    service::{Code, Service, ServiceError, ServiceResult},
    store::{DerivedName, Fill, Mapped, Read, Slice, StoreError},
};

/// How long a session that could not be read is left alone, unless it changes.
const ASIDE_FOR: Duration = Duration::from_secs(30);

impl Service {
    /// Runs `look` over the bytes of all parts of an index. Where one of its files is lost or to go
    /// meanwhile, what was computed is void: `look` ends at its next step, the files are closed,
    /// and it begins anew with the parts as they are then.
    pub(in crate::service) fn over<T>(
        &self,
        index: &ScopeIndex,
        look: impl Fn(&[&[u8]]) -> T,
    ) -> T {
        loop {
            let opened = |part: PartBytes| self.open_part(index, part);
            let parts: Vec<_> = index.parts().into_iter().filter_map(opened).collect();
            if let Some(found) = over_open(parts, &look) {
                return found;
            }
        }
    }

    /// Makes some parts of about the same size one, a large part a file, and drops the files that
    /// are no parts any more. A part that cannot be kept, as on a full disk, stays in memory while
    /// there is room.
    pub(in crate::service) async fn store_parts(&self, index: &ScopeIndex) {
        self.merge_some(index);
        if let Err(error) = self.keep_one(index, index.holding.kept_from()[0]).await {
            tracing::warn!(%error, "a part of the search index is in memory alone");
        }
        self.drop_files(index.take_left()).await;
    }

    /// Reads the first of some events; `None` when their session does not answer any more, or
    /// cannot be read: then it is set aside, and all others are read.
    pub(in crate::service) async fn read_wanted(
        &self,
        index: &ScopeIndex,
        one: &WantedEvents,
        events_max: usize,
        bytes_max: usize,
    ) -> Option<Slice> {
        let (range, fill, allow_gaps) = (one.range, Fill::Forward, true);
        let read = Read { range, events_max, bytes_max, fill, allow_gaps };
        match self.store.read(&one.from, read).await {
            Ok(slice) => return Some(slice),
            Err(
                StoreError::SessionNotFound { .. }
                | StoreError::SessionDeleted { .. }
                | StoreError::SessionExpired { .. },
            ) => index.hide(one.from_hash),
            Err(error) => {
                tracing::warn!(session = %one.session, %error, "a session is not searched");
                index.set_aside(one.hash, self.monotonic() + ASIDE_FOR);
            }
        }
        None
    }

    /// The bytes of a part; `None` when its file is gone: then its sessions are read again.
    fn open_part(&self, index: &ScopeIndex, bytes: PartBytes) -> Option<Arc<dyn Mapped>> {
        let name = match bytes {
            PartBytes::Fresh(bytes) => return Some(bytes),
            PartBytes::File(name) => name,
        };
        let mapped = self.store.open_derived(name).ok().filter(|mapped| !mapped.is_hurt());
        if mapped.is_none() {
            index.lose(name);
            self.indexing.lost.fetch_add(1, Ordering::Relaxed);
        }
        mapped
    }

    /// Makes some parts of about the same size one, where there are such.
    fn merge_some(&self, index: &ScopeIndex) {
        let Some(small) = index.tier() else { return };
        let opened = |part: &PartBytes| self.open_part(index, part.clone());
        let Some(parts) = small.iter().map(opened).collect() else { return };
        let merge = |parts: &[&[u8]]| index.holding.merged(parts, &|_, range| vec![range]);
        match over_open(parts, merge) {
            Some(Some(merged)) => index.replace(&small, merged),
            Some(None) => index.leave_apart(),
            // A file is to go, and its part with it.
            None => {}
        }
    }

    /// Makes the largest part of a scope a file, when it has so many passages; whether it did.
    pub(super) async fn keep_one(
        &self,
        index: &ScopeIndex,
        passages_min: usize,
    ) -> ServiceResult<bool> {
        let Some(part) = index.to_keep(passages_min) else { return Ok(false) };
        let label = index.holding.label(&index.scope);
        let name = match self.store.put_derived(&label, part.holds, &part.bytes).await {
            Ok(name) => name,
            // The next round notes what was taken away.
            Err(StoreError::Outdated { .. } | StoreError::NotOffered { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        self.drop_files(index.kept(&part.bytes, name)).await;
        Ok(true)
    }

    /// Drops files. Those that cannot be dropped now are not there any more all the same.
    pub(super) async fn drop_files(&self, files: Vec<DerivedName>) {
        for file in files {
            if let Err(error) = self.store.drop_derived(file).await {
                tracing::warn!(%error, "a file of the search index is left");
            }
        }
    }
}

/// Runs a task that takes a processor for a while on a blocking thread, so that no other task of
/// the runtime waits for it.
pub(in crate::service) async fn apart<T: Send + 'static>(
    task: impl Future<Output = ServiceResult<T>> + Send + 'static,
) -> ServiceResult<T> {
    let runtime = Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(task)).await;
    done.unwrap_or_else(|error| Err(ServiceError::new(Code::InternalError, error.to_string())))
}

/// Runs `look` over the bytes of some parts; `None` when one of them is hurt by then.
fn over_open<T>(parts: Vec<Arc<dyn Mapped>>, look: impl FnOnce(&[&[u8]]) -> T) -> Option<T> {
    let parts: Arc<[Arc<dyn Mapped>]> = parts.into();
    let open = Arc::clone(&parts);
    let is_void = move || open.iter().any(|part| part.is_hurt());
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.bytes()).collect();
    pace::unless(is_void, || look(&bytes))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::atomic::AtomicBool};

    use super::*;

    /// The bytes of a file that may have to go.
    struct Going(AtomicBool);

    impl Mapped for Going {
        fn bytes(&self) -> &[u8] {
            b"bytes"
        }

        fn is_hurt(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_computation_over_a_file_that_is_to_go_ends_at_its_next_step() {
        let going = Arc::new(Going(AtomicBool::new(false)));
        let open: Vec<Arc<dyn Mapped>> = vec![Arc::new(b"more".to_vec()), going.clone()];
        let steps = Cell::new(0_u32);
        let look = |parts: &[&[u8]]| {
            assert_eq!(parts, [&b"more"[..], b"bytes"]);
            going.0.store(true, Ordering::Relaxed);
            for _ in 0..1_000_000 {
                pace::step();
                steps.set(steps.get() + 1);
            }
        };
        assert_eq!(over_open(open, look), None);
        assert!(steps.get() < 1_000, "{}", steps.get());
        assert_eq!(Arc::strong_count(&going), 1, "it is closed");
        let open: Vec<Arc<dyn Mapped>> = vec![Arc::new(b"more".to_vec())];
        assert_eq!(over_open(open, |parts| parts.len()), Some(1));
    }
}
