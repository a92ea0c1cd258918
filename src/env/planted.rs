//! Planted defects: each shows that a test detects it. Without the feature `tests` the check is
//! always false and costs nothing. It must not plant anything by itself, and each defect is checked
//! in one place only.

/// A planted defect of the engine. Defects of disk calls are planted around the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A redaction is answered before the zeros over its bytes are durable.
    AnswerBeforeZeros,
    /// A request is written into the journal file that the last start ended.
    AppendAfterTornTail,
    /// Segment bytes that `settled/` does not name are accepted.
    BelieveBeyondSettled,
    /// A damaged frame that was durable is treated as a torn tail.
    CutAtDamage,
    /// A start does not load event ids and batch keys.
    DropIdempotency,
    /// Bytes that shared a block with a failed write are not written again.
    ForgetShared,
    /// The key of an erased session is kept.
    KeepErasedKey,
    /// The checksum of a payload is not checked.
    HeaderOnlyChecksum,
    /// A key is not made durable before something is written under it.
    LateKey,
    /// The thread that becomes leader of the journal is not woken.
    LoseWakeUp,
    /// A reused journal file keeps its salt.
    NoNewSalt,
    /// Journal files are freed before their records are flushed.
    RecycleBeforeFlushing,
    /// Journal files that the older settled file needs are freed.
    RecyclePastOlder,
    /// The end of a poisoned file is recorded after the failed frame, so its positions are used
    /// again.
    ReuseAfterPoison,
    /// One nonce is used for everything.
    SameNonce,
    /// Bytes of a redacted body that a file still has are served.
    ServeRedacted,
    /// Readers see the bytes of a failed sync.
    ServePastDurable,
    /// A redaction leaves the journal file in use unchanged.
    SpareLastFile,
    /// A replaced segment is unlinked while the older settled file names it.
    UnlinkEarly,
    /// Bytes of earlier uses after the frames of a journal file are kept.
    ZeroFramesAlone,
}

#[cfg(feature = "tests")]
static PLANTED: std::sync::OnceLock<Defect> = std::sync::OnceLock::new();

/// Plants a defect in this process for good; a later call has no effect.
#[cfg(feature = "tests")]
pub fn plant(defect: Defect) {
    PLANTED.get_or_init(|| defect);
}

#[cfg(feature = "tests")]
pub(crate) fn is_planted(defect: Defect) -> bool {
    PLANTED.get() == Some(&defect)
}

/// Returns false: no defect can be planted.
#[cfg(not(feature = "tests"))]
pub(crate) const fn is_planted(_: Defect) -> bool {
    false
}
