//! Manifest of a backup: the file `BACKUP`, lines of text with the length and hash of every file,
//! and a last line that marks it complete. It must not read a file.
//!
//! ```text
//! sessionlog backup 1
//! store <32 hex digits>
//! at <microseconds since 1970>
//! sessions <number>
//! key <16 hex digits>                      id of the master key; in plaintext: key none
//! file <blake3, 64 hex digits> <bytes> <path>
//! …
//! end <blake3 of every byte before this line>
//! ```

use crate::event::KeyId;

/// First line of a manifest, with the version.
const FIRST: &str = "sessionlog backup 1";

/// Entry for a file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Path of the file, `/`-separated.
    pub path: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// blake3 of the file's bytes.
    pub hash: [u8; 32],
}

/// Manifest of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Id of the store.
    pub store: [u8; 16],
    /// Time of the backup, in microseconds since 1970.
    pub at: i64,
    /// Number of sessions in the backup.
    pub sessions: u64,
    /// Id of the master key that the backup is encrypted under; `None` in plaintext.
    pub key: Option<KeyId>,
    /// Files of the backup, in the order in which a restore writes them.
    pub files: Vec<BackupFile>,
}

/// Reason why a text is not a valid manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The first line is not that of a manifest.
    #[error("the file BACKUP is none of a backup")]
    Foreign,
    /// The first line is that of a later version.
    #[error("the backup was made by a newer version")]
    Newer,
    /// The last line is missing.
    #[error("the backup is incomplete: it was interrupted while it was made")]
    Incomplete,
    /// The text does not match its hash, or does not parse.
    #[error("the file BACKUP is damaged")]
    Damaged,
}

/// Incremental hash and length of a file's bytes.
#[derive(Default)]
pub struct FileHasher {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl FileHasher {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns the number of bytes added.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the manifest entry of a file with the bytes added.
    #[must_use]
    pub fn entry(&self, path: &str) -> BackupFile {
        let hash = *self.hasher.finalize().as_bytes();
        BackupFile { path: path.to_owned(), bytes: self.bytes, hash }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digits = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 2 * N || !digits(text) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

impl Manifest {
    /// Returns the id of the store as 32 hex digits.
    #[must_use]
    pub fn store_id(&self) -> String {
        hex(&self.store)
    }

    /// Returns the content of the file `BACKUP` while the backup is being made.
    #[must_use]
    pub fn placeholder() -> String {
        format!("{FIRST}\n")
    }

    /// Encodes the whole file.
    #[must_use]
    pub fn encode(&self) -> String {
        let key = self.key.map_or_else(|| "none".to_owned(), |key| key.to_string());
        let mut text = Self::placeholder();
        text += &format!("store {}\nat {}\n", self.store_id(), self.at);
        text += &format!("sessions {}\nkey {key}\n", self.sessions);
        for BackupFile { path, bytes, hash } in &self.files {
            text += &format!("file {} {bytes} {path}\n", hex(hash));
        }
        let end = blake3::hash(text.as_bytes());
        text + &format!("end {}\n", end.to_hex())
    }

    /// Decodes the whole file.
    ///
    /// # Errors
    /// The reason why the text is not a valid manifest.
    pub fn decode(text: &str) -> Result<Self, ManifestError> {
        let (first, _) = text.split_once('\n').ok_or(ManifestError::Foreign)?;
        if first != FIRST {
            let newer = first.starts_with("sessionlog backup ");
            return Err(if newer { ManifestError::Newer } else { ManifestError::Foreign });
        }
        let body = text.strip_suffix('\n').ok_or(ManifestError::Incomplete)?;
        let at = body.rfind('\n').ok_or(ManifestError::Incomplete)? + 1;
        let (before, last) = body.split_at_checked(at).ok_or(ManifestError::Incomplete)?;
        let end = last.strip_prefix("end ").ok_or(ManifestError::Incomplete)?;
        // Compared as text: hex digits in capitals are rejected.
        if end != blake3::hash(before.as_bytes()).to_hex().as_str() {
            return Err(ManifestError::Damaged);
        }
        Self::decode_fields(before).ok_or(ManifestError::Damaged)
    }

    fn decode_fields(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let (store, at) = (parse_hex(field("store")?)?, field("at")?.parse().ok()?);
        let (sessions, key) = (field("sessions")?.parse().ok()?, field("key")?);
        let key = match key {
            "none" => None,
            id => Some(KeyId(parse_hex(id)?)),
        };
        let file = |line: &str| {
            let mut parts = line.strip_prefix("file ")?.splitn(3, ' ');
            let (hash, bytes) = (parse_hex(parts.next()?)?, parts.next()?.parse().ok()?);
            Some(BackupFile { path: parts.next()?.to_owned(), bytes, hash })
        };
        let files = lines.map(file).collect::<Option<_>>()?;
        Some(Self { store, at, sessions, key, files })
    }
}
