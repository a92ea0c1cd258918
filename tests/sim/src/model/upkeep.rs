//! Maintenance of the whole model by an operator. It must not find damage: none of it is on a disk.

use futures_util::{FutureExt, future::BoxFuture};

use super::{Model, gone};
use sessionlog::{
    event::SessionKey,
    store::{KeyReport, Maintain, Recovery, RepairResult, StoreError, StoreResult, VerifyResult},
};

impl Maintain for Model {
    fn verify_scopes(&self) -> BoxFuture<'_, StoreResult<VerifyResult>> {
        async move {
            let mut verified = VerifyResult::default();
            for found in self.sessions().values().filter(|found| gone(found).is_ok()) {
                verified.sessions += 1;
                verified.events += found.info.tail.0;
                verified.bytes += found.info.bytes;
            }
            Ok(verified)
        }
        .boxed()
    }

    fn repair<'a>(
        &'a self,
        key: &'a SessionKey,
        _accept: bool,
    ) -> BoxFuture<'a, StoreResult<RepairResult>> {
        async move { self.with(key, |_| Ok(RepairResult::default())) }.boxed()
    }

    fn repair_store(&self, _accept: bool) -> BoxFuture<'_, StoreResult<RepairResult>> {
        async { Ok(RepairResult::default()) }.boxed()
    }

    fn keys(&self) -> BoxFuture<'_, StoreResult<Option<KeyReport>>> {
        async move { Ok(None) }.boxed()
    }

    fn rotate_keys(&self, _: usize) -> BoxFuture<'_, StoreResult<KeyReport>> {
        async move { Err(StoreError::Plaintext) }.boxed()
    }

    fn recovery(&self) -> Recovery {
        Recovery { clean: true, ..Recovery::default() }
    }
}
