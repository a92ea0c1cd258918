//! The parts of one index: opened, merged, and written as derived files; and reads of the events
//! for them. It must not choose the index that is updated next.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::runtime::Handle;

use super::scope::{PartBytes, ScopeIndex, WantedEvents};
use crate::{
    api::search::Complete,
    event::pace,
    service::{Code, Service, ServiceError, ServiceResult},
    store::{DerivedName, FillDirection, Mapped, ReadRequest, Slice, StoreError},
};

/// Time until an unreadable session is read again, unless it changes first.
const DEFERRED_FOR: Duration = Duration::from_secs(30);

impl Service {
    /// Runs `look` over the bytes of all parts of an index; returns its result, and the coverage of
    /// these parts. If one of its files is lost or must be removed meanwhile, the result is
    /// discarded: `look` ends at its next step, the files are closed, and it runs again with the
    /// current parts.
    pub(in crate::service) fn with_parts<T>(
        &self,
        index: &ScopeIndex,
        look: impl Fn(&[&[u8]]) -> T,
    ) -> (T, Complete) {
        loop {
            let (parts, covered) = index.parts();
            let opened = |part: PartBytes| self.open_part(index, part);
            // A lost file is no part any more, and its sessions are behind.
            let Some(parts) = parts.into_iter().map(opened).collect() else { continue };
            if let Some(found) = with_open_parts(parts, &look) {
                return (found, covered);
            }
        }
    }

    /// Merges parts of similar size, writes a large part to a file, and drops obsolete files. A
    /// part that cannot be written, as on a full disk, stays in memory while it fits.
    pub(in crate::service) async fn store_parts(&self, index: &ScopeIndex) {
        self.merge_similar_parts(index);
        if let Err(error) =
            self.write_largest_part(index, index.content.file_passages_min()[0]).await
        {
            tracing::warn!(%error, "a part of the search index is in memory alone");
        }
        self.drop_files(index.take_obsolete_files()).await;
    }

    /// Reads the first of some events; `None` if their session is deleted or unreadable. An
    /// unreadable session is deferred, and the others are read.
    pub(in crate::service) async fn read_wanted(
        &self,
        index: &ScopeIndex,
        one: &WantedEvents,
        events_max: usize,
        bytes_max: usize,
    ) -> Option<Slice> {
        let (range, fill, allow_gaps) = (one.range, FillDirection::Forward, true);
        let read = ReadRequest { range, events_max, bytes_max, fill, allow_gaps };
        match self.store.read(&one.from, read).await {
            Ok(slice) => return Some(slice),
            Err(
                StoreError::SessionNotFound { .. }
                | StoreError::SessionDeleted { .. }
                | StoreError::SessionExpired { .. },
            ) => index.mark_gone(one.from_hash),
            Err(error) => {
                tracing::warn!(session = %one.session, %error, "a session is not searched");
                index.defer_session(one.hash, self.monotonic() + DEFERRED_FOR);
            }
        }
        None
    }

    /// Returns the bytes of a part; `None` if its file is lost: then its sessions are read again.
    fn open_part(&self, index: &ScopeIndex, bytes: PartBytes) -> Option<Arc<dyn Mapped>> {
        let name = match bytes {
            PartBytes::Fresh(bytes) => return Some(bytes),
            PartBytes::File(name) => name,
        };
        let mapped = self.store.open_derived(name).ok().filter(|mapped| !mapped.has_read_error());
        if mapped.is_none() {
            index.drop_lost_file(name);
            self.indexing.lost.fetch_add(1, Ordering::Relaxed);
        }
        mapped
    }

    fn merge_similar_parts(&self, index: &ScopeIndex) {
        let Some(small) = index.parts_to_merge() else { return };
        let opened = |part: &PartBytes| self.open_part(index, part.clone());
        let Some(parts) = small.iter().map(opened).collect() else { return };
        let merge = |parts: &[&[u8]]| index.content.merge_parts(parts, &|_, range| vec![range]);
        match with_open_parts(parts, merge) {
            Some(Some(merged)) => index.replace_parts(&small, merged),
            Some(None) => index.stop_merging(),
            // A file must be removed, and its part with it.
            None => {}
        }
    }

    /// Writes the largest part with enough passages to a file; returns true if it did.
    pub(super) async fn write_largest_part(
        &self,
        index: &ScopeIndex,
        passages_min: usize,
    ) -> ServiceResult<bool> {
        let Some(part) = index.part_to_write(passages_min) else { return Ok(false) };
        let label = index.content.label(&index.scope);
        let name = match self.store.put_derived(&label, part.holds, &part.bytes).await {
            Ok(name) => name,
            // The next round notes the removal.
            Err(StoreError::Outdated { .. } | StoreError::NotOffered { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        self.drop_files(index.mark_written(&part.bytes, name)).await;
        Ok(true)
    }

    /// Drops files; failures are logged, as the files are already unused.
    pub(super) async fn drop_files(&self, files: Vec<DerivedName>) {
        for file in files {
            if let Err(error) = self.store.drop_derived(file).await {
                tracing::warn!(%error, "a file of the search index is left");
            }
        }
    }
}

/// Runs a CPU-intensive task on a blocking thread, so that no other task of the runtime is delayed.
pub(in crate::service) async fn run_blocking<T: Send + 'static>(
    task: impl Future<Output = ServiceResult<T>> + Send + 'static,
) -> ServiceResult<T> {
    let runtime = Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(task)).await;
    done.unwrap_or_else(|error| Err(ServiceError::new(Code::InternalError, error.to_string())))
}

/// Runs `look` over the bytes of some parts; `None` if one of them is damaged by then.
fn with_open_parts<T>(parts: Vec<Arc<dyn Mapped>>, look: impl FnOnce(&[&[u8]]) -> T) -> Option<T> {
    let parts: Arc<[Arc<dyn Mapped>]> = parts.into();
    let open = Arc::clone(&parts);
    let is_void = move || open.iter().any(|part| part.has_read_error());
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.bytes()).collect();
    pace::run_unless(is_void, || look(&bytes))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::atomic::AtomicBool};

    use super::*;

    /// Bytes of a file that may have to be removed.
    struct Going(AtomicBool);

    impl Mapped for Going {
        fn bytes(&self) -> &[u8] {
            b"bytes"
        }

        fn has_read_error(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_computation_over_a_file_to_be_removed_ends_at_its_next_step() {
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
        assert_eq!(with_open_parts(open, look), None);
        assert!(steps.get() < 1_000, "{}", steps.get());
        assert_eq!(Arc::strong_count(&going), 1, "it is closed");
        let open: Vec<Arc<dyn Mapped>> = vec![Arc::new(b"more".to_vec())];
        assert_eq!(with_open_parts(open, |parts| parts.len()), Some(1));
    }
}
