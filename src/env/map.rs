//! Files mapped into memory, read-only, for bytes that may be lost. A page that cannot be read,
//! because the file was truncated or the device fails, reads as zeros and marks its mapping as
//! damaged, where the system would end the process. It must not map a file that is written to while
//! it is mapped.
//!
//! The handler of `SIGBUS` is installed with the first mapping. It handles faults within these
//! mappings; any other goes to the previous handler, or ends the process as it would have.

#![expect(unsafe_code, reason = "a mapping, and a handler of a signal")]
#![expect(clippy::disallowed_types, reason = "one of the rooms of the file system")]

use std::{
    fs, io,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use memmap2::{Mmap, MmapOptions};

/// Stored bytes, open for reading.
pub trait Mapped: Send + Sync {
    /// Returns the bytes as stored; zeros where [`Self::has_read_error`].
    fn bytes(&self) -> &[u8];

    /// Returns true if some bytes have read as zeros, because the file was truncated or the device
    /// failed, or if the file is to be removed: results computed from them are void. The caller
    /// checks often, and then drops the value.
    fn has_read_error(&self) -> bool {
        false
    }

    /// Returns true if the bytes are a copy in memory of this process, not a mapping.
    fn is_copy(&self) -> bool {
        true
    }
}

impl Mapped for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Mapped for zeroize::Zeroizing<Vec<u8>> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Maximum number of concurrent mappings; files beyond it are copied.
const SLOTS: usize = 4096;
/// State of a slot that is being claimed.
const CLAIMING: usize = 1;

/// Address range of a mapping, which a signal handler reads without a lock.
struct MapSlot {
    /// Address of the first byte; 0 marks a free slot.
    from: AtomicUsize,
    to: AtomicUsize,
    read_error: AtomicBool,
}

static TABLE: [MapSlot; SLOTS] = [const {
    MapSlot {
        from: AtomicUsize::new(0),
        to: AtomicUsize::new(0),
        read_error: AtomicBool::new(false),
    }
}; SLOTS];
/// Number of slots that were ever claimed; later slots are unused.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);
/// Handler of the signal before this program installed its own.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
static PAGE: AtomicUsize = AtomicUsize::new(4096);

struct Mapping {
    map: Mmap,
    slot: &'static MapSlot,
}

impl Mapped for Mapping {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    fn has_read_error(&self) -> bool {
        self.slot.read_error.load(Ordering::Acquire)
    }

    fn is_copy(&self) -> bool {
        false
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // No thread reads the mapping any more, so no fault occurs before it is unmapped.
        self.slot.from.store(0, Ordering::Release);
    }
}

/// Maps the first `bytes` bytes of a file; `None` when there are too many mappings, or no bytes to
/// map. The caller ensures that no process writes to the file while it is mapped.
///
/// # Errors
/// The error of the system.
pub(super) fn map(file: &fs::File, bytes: u64) -> io::Result<Option<Box<dyn Mapped>>> {
    let length = usize::try_from(bytes).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(None);
    }
    install_handler()?;
    let Some(slot) = claim_slot() else { return Ok(None) };
    // SAFETY: the file is written once, before it is mapped, and overwritten only when no mapping
    // of it is left. One that is truncated from outside faults, and the handler maps zeros there.
    let mapped = unsafe { MmapOptions::new().len(length).map(file) };
    let map = mapped.inspect_err(|_| slot.from.store(0, Ordering::Release))?;
    // Excludes user content from core dumps. A hint: not every system supports it.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::DontDump);
    let from = map.as_ptr() as usize;
    slot.read_error.store(false, Ordering::Release);
    slot.to.store(from + length, Ordering::Release);
    slot.from.store(from, Ordering::Release);
    Ok(Some(Box::new(Mapping { map, slot })))
}

fn claim_slot() -> Option<&'static MapSlot> {
    let free = |slot: &&MapSlot| {
        let taken = slot.from.compare_exchange(0, CLAIMING, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    };
    let at = TABLE.iter().position(|slot| free(&slot))?;
    CLAIMED.fetch_max(at + 1, Ordering::AcqRel);
    TABLE.get(at)
}

/// Installs the handler, once per process.
fn install_handler() -> io::Result<()> {
    static INSTALLED: std::sync::Mutex<bool> = std::sync::Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    // SAFETY: both structures are plain data that the calls fill or read; the handler is
    // async-signal-safe. The previous handler is stored before this one can run.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).map_err(io::Error::other)?;
        PAGE.store(page, Ordering::Release);
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        let _ = PREVIOUS.set(before);
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle_fault;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    *installed = true;
    Ok(())
}

/// Handles a page fault. It may interrupt any thread at any point, so it acquires no lock and
/// allocates nothing.
extern "C" fn handle_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure; its address is valid when the system itself sent
    // the signal, which a positive code indicates.
    let at = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    if at.is_some_and(map_zero_page) {
        return;
    }
    // SAFETY: the previous handler is called as it was installed, or the default is restored: then
    // the same access faults again when this returns, and ends the process.
    unsafe {
        let before = PREVIOUS.get();
        match before.map_or(libc::SIG_DFL, |before| before.sa_sigaction) {
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
                if at.is_none() {
                    libc::raise(signal);
                }
            }
            handler if before.is_some_and(|one| one.sa_flags & libc::SA_SIGINFO != 0) => {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Replaces an unreadable page by zeros and marks its mapping; returns false for other addresses.
fn map_zero_page(at: usize) -> bool {
    let taken = TABLE.get(..CLAIMED.load(Ordering::Acquire)).unwrap_or_default();
    let mut slots = taken.iter();
    let ours = slots.find(|slot| {
        let from = slot.from.load(Ordering::Acquire);
        from > CLAIMING && from <= at && at < slot.to.load(Ordering::Acquire)
    });
    let Some(slot) = ours else { return false };
    slot.read_error.store(true, Ordering::Release);
    let page = PAGE.load(Ordering::Acquire);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page is within one of these mappings, which is read as bytes of any value.
    let put = unsafe {
        let page_at = (at - at % page) as *mut libc::c_void;
        libc::mmap(page_at, page, libc::PROT_READ, flags, -1, 0)
    };
    put != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, fs::File, std::path::PathBuf) {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("file");
        fs::write(&path, bytes).expect("written");
        let file = fs::File::open(&path).expect("opened");
        (home, file, path)
    }

    #[test]
    fn a_truncated_mapping_reads_zeros_and_only_it_is_marked_damaged() {
        let bytes = vec![7_u8; 64 << 10];
        let (_home, opened, path) = file(&bytes);
        let (_other_home, other, _) = file(&bytes);
        let cut = map(&opened, bytes.len() as u64).expect("mapped").expect("a slot");
        let whole = map(&other, bytes.len() as u64).expect("mapped").expect("a slot");
        assert_eq!((cut.bytes(), cut.has_read_error(), cut.is_copy()), (&bytes[..], false, false));
        let shorter = fs::OpenOptions::new().write(true).open(&path).expect("opened");
        shorter.set_len(4096).expect("cut");
        assert_eq!(cut.bytes().iter().filter(|byte| **byte == 0).count(), (64 << 10) - 4096);
        assert!(cut.has_read_error());
        assert_eq!(whole.bytes(), bytes);
        assert!(!whole.has_read_error());
        drop((cut, whole));
        let again = map(&other, bytes.len() as u64).expect("mapped").expect("a slot");
        assert!(!again.has_read_error(), "a slot that is taken again begins anew");
        assert!(map(&other, 0).expect("nothing to map").is_none());
    }
}
