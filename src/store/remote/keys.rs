//! The keys of a store of nodes: the store's own, in the slot of the store, and one for each
//! session, in the slot beside its row; all wrapped under a master key. A plaintext store has the
//! slot of the store, too: it says that there is no key. It must not look into a row or a frame.

use std::sync::Arc;

use bytes::Bytes;

use super::store_error;
use crate::{
    env::{
        Entropy, MasterKeys,
        sync::{Mutex, Rank},
    },
    event::{KeyId, Timestamp},
    log::{
        Cipher, Fault, KeyNumber, Nonce, StoreFile, StoreKeys,
        keyring::{KeySlot, MasterKey, NameKey, OwnKey, TenantTag},
    },
    store::{
        KeyProblem, KeyReport, StoreError, StoreResult,
        base::{Base, BaseError, Hash16, STORE_SLOT, SessionRow, SlotChange},
        keys::{choose_masters, master_keys},
    },
};

/// Slots read with one statement.
const SLOTS_MAX: usize = 4_096;

/// Keys of a store of nodes.
pub(super) struct NodeKeys {
    /// Id of the store.
    pub(super) store: [u8; 16],
    /// Key of the names in the base.
    pub(super) names: NameKey,
    ring: Option<NodeKeyRing>,
    entropy: Arc<dyn Entropy>,
    /// During a rotation: keys of sessions up to this one were wrapped anew.
    rotated_to: Mutex<Option<Hash16>>,
}

/// Keys of an encrypted store of nodes.
struct NodeKeyRing {
    store: [u8; 16],
    given: Arc<MasterKeys>,
    /// All master keys given: another node may begin a rotation at any time.
    masters: Vec<MasterKey>,
    own: OwnKey,
    cipher: Cipher,
    /// Slot of the store, as last read.
    stored: Mutex<Bytes>,
}

/// Reads the slot of the store; `None` before its first start.
async fn read_store_slot(base: &dyn Base) -> Result<Option<Bytes>, BaseError> {
    let first = base.slots(None, 1).await?.into_iter().next();
    Ok(first.filter(|(session, _)| *session == STORE_SLOT).map(|(_, slot)| slot))
}

/// Returns the id of a store and its own key; `None` before its first start.
pub(super) async fn read_store(base: &dyn Base) -> StoreResult<Option<StoreFile>> {
    let slot = read_store_slot(base).await.map_err(store_error)?;
    slot.map(|slot| decode_store_slot(&slot)).transpose()
}

/// Decodes the slot of a store.
fn decode_store_slot(slot: &[u8]) -> StoreResult<StoreFile> {
    StoreFile::decode(slot).map_err(|fault| damage(&fault.to_string()))
}

fn damage(reason: &str) -> StoreError {
    let source = std::io::Error::other(reason.to_owned());
    StoreError::Io { doing: "reading the keys of the store", source }
}

fn key_number(uid: Hash16) -> KeyNumber {
    // 0 is the store's own key.
    KeyNumber(u64::from_le_bytes(std::array::from_fn(|n| uid.get(n).copied().unwrap_or(0))) | 1)
}

impl NodeKeys {
    /// Opens the keys of a store, a plaintext one without those given; `None` before its first
    /// start.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub(super) async fn open_existing(
        base: &dyn Base,
        entropy: Arc<dyn Entropy>,
        now: Timestamp,
        given: Option<Arc<MasterKeys>>,
    ) -> StoreResult<Option<Self>> {
        let Some(store) = read_store(base).await? else { return Ok(None) };
        let given = given.filter(|_| store.keys.is_some());
        Self::open(base, entropy, now, given).await.map(Some)
    }

    /// Opens the keys of a store; makes them for a new one. Nodes that start at once agree on the
    /// keys of one of them.
    ///
    /// # Errors
    /// [`StoreError::Key`] for other keys than the store needs, and errors of the base.
    pub(super) async fn open(
        base: &dyn Base,
        entropy: Arc<dyn Entropy>,
        now: Timestamp,
        given: Option<Arc<MasterKeys>>,
    ) -> StoreResult<Self> {
        let slot = match read_store_slot(base).await.map_err(store_error)? {
            Some(slot) => slot,
            None => {
                let mut id = [0; 16];
                entropy.fill(&mut id);
                let after = new_store_slot(&*entropy, now, (id, None), given.as_deref());
                let change = SlotChange { session: STORE_SLOT, before: None, after };
                match base.change_slots(vec![change]).await {
                    // It may have happened.
                    Ok(_) | Err(BaseError::Unsure(_)) => {}
                    Err(error) => return Err(store_error(error)),
                }
                let slot = read_store_slot(base).await.map_err(store_error)?;
                slot.ok_or_else(|| damage("there are none"))?
            }
        };
        let store = decode_store_slot(&slot)?;
        let ring = match (&store.keys, given) {
            (None, None) => None,
            (None, Some(_)) => return Err(KeyProblem::Plaintext.into()),
            (Some(keys), None) => {
                return Err(KeyProblem::Missing { wanted: keys.current.id }.into());
            }
            (Some(keys), Some(given)) => {
                let (_, own) = choose_masters(&store, keys, &given)?;
                let (masters, cipher) = (master_keys(&given), own.cipher());
                let stored = Mutex::new(Rank::LAST, slot);
                Some(NodeKeyRing { store: store.id, given, masters, own, cipher, stored })
            }
        };
        let names = NameKey::new(store.id, ring.as_ref().map(|ring| &ring.own));
        Ok(Self { store: store.id, names, ring, entropy, rotated_to: Mutex::default() })
    }

    /// Returns true if the store is encrypted.
    pub(super) fn are_used(&self) -> bool {
        self.ring.is_some()
    }

    /// Returns the ids of the master keys given.
    pub(super) fn given_ids(&self) -> Vec<KeyId> {
        self.ring.iter().flat_map(|ring| ring.masters.iter().map(MasterKey::id)).collect()
    }

    /// Returns the store's own key.
    pub(super) fn own_key(&self) -> Option<&OwnKey> {
        self.ring.as_ref().map(|ring| &ring.own)
    }

    pub(super) fn nonce(&self) -> Nonce {
        self.secret()
    }

    fn secret<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.fill_secret(&mut bytes);
        bytes
    }

    fn ring(&self) -> &NodeKeyRing {
        self.ring.as_ref().expect("only an encrypted store seals and opens")
    }

    /// Returns the cipher of the store's own key.
    pub(super) fn store_cipher(&self) -> &Cipher {
        &self.ring().cipher
    }

    /// Returns the slot of the store, as last read.
    pub(super) fn store_slot(&self) -> Bytes {
        self.ring().stored.lock().clone()
    }

    /// Reads the slot of the store again.
    pub(super) async fn refresh(&self, base: &dyn Base) -> Result<(), BaseError> {
        if let Some(slot) = read_store_slot(base).await? {
            *self.ring().stored.lock() = slot;
        }
        Ok(())
    }

    /// Makes the key of a session; returns its slot, under the current master key of that slot of
    /// the store, and its cipher.
    pub(super) fn make_key(
        &self,
        uid: Hash16,
        tenant: Hash16,
        store_slot: &[u8],
    ) -> Result<(Bytes, Cipher), BaseError> {
        let ring = self.ring();
        let store = StoreFile::decode(store_slot);
        let store = store.map_err(|fault| BaseError::Failed(fault.to_string()))?;
        let current = store.keys.map(|keys| keys.current.id);
        let master = current.ok_or_else(unknown_master).and_then(|id| ring.master(id))?;
        let (number, key) = (key_number(uid), zeroize::Zeroizing::new(self.secret()));
        let wrapped = master.wrap(store.id, number, TenantTag(tenant), &key, self.nonce());
        let slot = KeySlot::Key(wrapped).encode(number);
        Ok((slot.into(), Cipher::new(&key, store.id, number)))
    }

    /// Returns the cipher of the frames of a session, or its fault.
    ///
    /// # Errors
    /// [`BaseError::ReadOnly`] for a key under a master key that the node does not have.
    pub(super) fn session_cipher(
        &self,
        row: &SessionRow,
    ) -> Result<Result<Cipher, Fault>, BaseError> {
        let (ring, number) = (self.ring(), key_number(row.uid));
        let slot = row.slot.as_deref().map_or(Ok(KeySlot::Empty), |it| KeySlot::decode(number, it));
        let wrapped = match slot {
            Ok(KeySlot::Key(wrapped)) if wrapped.tag == TenantTag(row.tenant) => wrapped,
            Ok(KeySlot::Key(_)) => return Ok(Err(Fault::Misplaced)),
            Ok(KeySlot::Empty | KeySlot::Destroyed) => return Ok(Err(Fault::NoKey)),
            Err(fault) => return Ok(Err(fault)),
        };
        let key = ring.master(wrapped.master)?.unwrap(ring.store, &wrapped);
        Ok(key.map(|key| Cipher::new(&key, ring.store, number)))
    }

    /// Returns the master keys that the store needs, and counts the keys of sessions; `None` in
    /// plaintext.
    pub(super) async fn report(&self, base: &dyn Base) -> StoreResult<Option<KeyReport>> {
        let Some(ring) = &self.ring else { return Ok(None) };
        self.refresh(base).await.map_err(store_error)?;
        let store = ring.stored_file()?;
        let keys = store.keys.ok_or_else(|| damage("there are none"))?;
        let mut report = KeyReport::new(&store, &keys, Some(&ring.given));
        let mut after = Some(STORE_SLOT);
        loop {
            let slots = base.slots(after, SLOTS_MAX).await.map_err(store_error)?;
            let Some((last, _)) = slots.last() else { return Ok(Some(report)) };
            after = Some(*last);
            for (session, slot) in &slots {
                match KeySlot::decode(key_number(*session), slot) {
                    Ok(KeySlot::Key(wrapped)) => {
                        report.keys += 1;
                        report.behind += u64::from(wrapped.master != keys.current.id);
                    }
                    Ok(KeySlot::Destroyed | KeySlot::Empty) => report.destroyed += 1,
                    Err(_) => report.unreadable += 1,
                }
            }
        }
    }

    /// Begins a rotation to the current master key given, or continues one: wraps up to `keys_max`
    /// keys of sessions anew. A change that another node overtook is left to the next call.
    ///
    /// # Errors
    /// [`StoreError::Plaintext`], errors of the base, and a key that cannot be unwrapped.
    pub(super) async fn rotate(&self, base: &dyn Base, keys_max: usize) -> StoreResult<KeyReport> {
        let ring = self.ring.as_ref().ok_or(StoreError::Plaintext)?;
        self.refresh(base).await.map_err(store_error)?;
        let store = ring.stored_file()?;
        let keys = store.keys.ok_or_else(|| damage("there are none"))?;
        let given = ring.masters.first().filter(|given| given.id() != keys.current.id);
        match (keys.previous, given) {
            (Some(_), _) => self.rewrap_some(base, store, keys, keys_max).await?,
            (None, Some(new)) => {
                let current = new.wrap_own(&ring.own, self.nonce());
                let next = StoreKeys { current, previous: Some(keys.current) };
                self.put_store(base, StoreFile { keys: Some(next), ..store }).await?;
                *self.rotated_to.lock() = None;
            }
            (None, None) => {}
        }
        self.report(base).await?.ok_or(StoreError::Plaintext)
    }

    /// Wraps some keys anew; ends the rotation after a look at all that finds none to be wrapped. A
    /// key that is made meanwhile is under the new master key: see [`Base::create`].
    async fn rewrap_some(
        &self,
        base: &dyn Base,
        store: StoreFile,
        keys: StoreKeys,
        keys_max: usize,
    ) -> StoreResult<()> {
        let ring = self.ring();
        let master = ring.master(keys.current.id).map_err(store_error)?;
        let from = *self.rotated_to.lock();
        let (mut after, mut changes) = (from.or(Some(STORE_SLOT)), Vec::new());
        while changes.is_empty() {
            let slots = base.slots(after, keys_max.clamp(1, SLOTS_MAX)).await;
            let slots = slots.map_err(store_error)?;
            after = slots.last().map(|(session, _)| *session);
            if after.is_none() {
                break;
            }
            for (session, before) in slots {
                let number = key_number(session);
                let slot = KeySlot::decode(number, &before);
                let slot = slot.map_err(|fault| damage(&fault.to_string()))?;
                let KeySlot::Key(wrapped) = slot else { continue };
                if wrapped.master == master.id() {
                    continue;
                }
                let old = ring.master(wrapped.master).map_err(store_error)?;
                let key = old.unwrap(store.id, &wrapped);
                let key = key.map_err(|fault| damage(&fault.to_string()))?;
                let anew = master.wrap(store.id, number, wrapped.tag, &key, self.nonce());
                let anew = KeySlot::Key(anew).encode(number).into();
                changes.push(SlotChange { session, before: Some(before), after: anew });
            }
        }
        *self.rotated_to.lock() = after;
        if !changes.is_empty() {
            return base.change_slots(changes).await.map(drop).map_err(store_error);
        }
        match from {
            None => {
                let last = StoreKeys { previous: None, ..keys };
                self.put_store(base, StoreFile { keys: Some(last), ..store }).await
            }
            Some(_) => Ok(()),
        }
    }

    /// Replaces the slot of the store, if it is as it was last read.
    async fn put_store(&self, base: &dyn Base, store: StoreFile) -> StoreResult<()> {
        let before = Some(self.store_slot());
        let change = SlotChange { session: STORE_SLOT, before, after: store.encode().into() };
        base.change_slots(vec![change]).await.map_err(store_error)?;
        self.refresh(base).await.map_err(store_error)
    }
}

impl NodeKeyRing {
    fn stored_file(&self) -> StoreResult<StoreFile> {
        decode_store_slot(&self.stored.lock())
    }

    fn master(&self, id: KeyId) -> Result<&MasterKey, BaseError> {
        self.masters.iter().find(|master| master.id() == id).ok_or_else(unknown_master)
    }
}

fn unknown_master() -> BaseError {
    let reason = "the master key was changed: start this node with the new key";
    BaseError::ReadOnly(reason.to_owned())
}

/// Returns the slot of a new store, if a master key is given with a key of its own: that of the
/// store that it copies, or a new one.
pub(super) fn new_store_slot(
    entropy: &dyn Entropy,
    now: Timestamp,
    (id, copied): ([u8; 16], Option<&OwnKey>),
    given: Option<&MasterKeys>,
) -> Bytes {
    let (mut key, mut nonce) = ([0; 32], [0; 24]);
    let keys = given.map(|given| {
        entropy.fill_secret(&mut key);
        entropy.fill_secret(&mut nonce);
        let new = || OwnKey::new(key, id, now.0);
        let own = copied.map_or_else(new, |own| own.for_copy(now.0));
        let current = MasterKey::new(given.current.bytes()).wrap_own(&own, nonce);
        StoreKeys { current, previous: None }
    });
    StoreFile { id, created_at: now.0, keys }.encode().into()
}
