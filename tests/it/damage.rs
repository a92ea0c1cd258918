//! Damage on the device: every significant byte is flipped in turn, sectors are zeroed, swapped and
//! copied over others, files are truncated, lose their middle, are rolled back, emptied and
//! deleted. Only acknowledged events are served, every loss is reported, other sessions stay
//! intact, and nothing is deleted; in plaintext and encrypted. It must not expect more of a start
//! than docs/guarantees.md does.

mod found;
mod image;
mod judge;

use std::collections::{BTreeMap, BTreeSet};

use sessionlog::{
    event::Position,
    store::{Store, StoreError, local::LocalStore},
};
use sessionlog_sim::{SeededEntropy, Sim};

use crate::engines::{append, batch, create, event, key, small};
use image::{ERASED, FORKS, Image, SESSIONS};
use judge::{Damage, Fate};

const SECTOR: usize = 512;
/// Numbers of bytes after which every frame and sector of a file is misaligned.
const ODD: usize = 7;

/// Returns true if a byte carries no information: zeros of the journal after its frames, padding,
/// and the second half of a page after a header.
fn is_silent(bytes: &[u8], at: usize) -> bool {
    bytes[at.saturating_sub(8)..(at + 8).min(bytes.len())].iter().all(|byte| *byte == 0)
}

/// Tries one case in this many; `SESSIONLOG_STRIDE` overrides it, 1 for all.
fn stride(usual: usize) -> usize {
    let asked = std::env::var("SESSIONLOG_STRIDE").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(usual)
}

/// Returns files with other content; `None` if it is equal to the current one.
fn damage(image: &Image, told: String, changes: &[(&str, Option<Vec<u8>>)]) -> Option<Damage> {
    let differs =
        |(path, new): &&(&str, Option<Vec<u8>>)| new.as_ref() != Some(&image.files[*path]);
    let changes = changes.iter().filter(differs);
    let changes: BTreeMap<_, _> =
        changes.map(|(path, new)| ((*path).to_owned(), new.clone())).collect();
    (!changes.is_empty()).then_some(Damage { told, changes })
}

/// Returns one file with other content.
fn edit(image: &Image, path: &str, what: &str, act: impl FnOnce(&mut Vec<u8>)) -> Option<Damage> {
    let mut bytes = image.files[path].clone();
    act(&mut bytes);
    damage(image, format!("{path} {what}"), &[(path, Some(bytes))])
}

fn flip(image: &Image, path: &str, at: usize, bit: u8) -> Damage {
    let flipped = edit(image, path, &format!("byte {at}"), |bytes| bytes[at] ^= 1 << bit);
    flipped.expect("a flipped bit is another")
}

/// Returns the sectors of a file with significant bytes.
fn sectors(image: &Image) -> Vec<(&str, usize)> {
    let mut all = Vec::new();
    for (path, bytes) in &image.files {
        let said = |sector: &usize| bytes[sector * SECTOR..].iter().take(SECTOR).any(|b| *b != 0);
        all.extend((0..bytes.len().div_ceil(SECTOR)).filter(said).map(|s| (path.as_str(), s)));
    }
    all
}

/// Overwrites a sector with another, up to the end of the file.
fn overwrite_sector(bytes: &mut [u8], sector: usize, from: &[u8]) {
    let place = bytes[sector * SECTOR..].iter_mut().take(SECTOR);
    place.zip(from).for_each(|(to, from)| *to = *from);
}

fn sector(bytes: &[u8], sector: usize) -> Vec<u8> {
    bytes[sector * SECTOR..].iter().take(SECTOR).copied().collect()
}

/// Counts of a sweep.
#[derive(Default)]
struct Swept(BTreeMap<Fate, usize>);

impl Swept {
    async fn try_one(&mut self, image: &Image, damage: &Damage) -> Fate {
        let fate = image.check(damage).await;
        *self.0.entry(fate).or_default() += 1;
        fate
    }

    fn count(&self) -> usize {
        self.0.values().sum()
    }
}

impl Drop for Swept {
    fn drop(&mut self) {
        eprintln!("{:?}\ndamages {}", self.0, self.count());
    }
}

/// Tries one damage in this many, on both stores.
async fn sweep(seed: u64, usual: usize, damages: fn(&Image) -> Vec<Damage>) -> Swept {
    let mut swept = Swept::default();
    for encrypted in [false, true] {
        let image = Image::of(seed, encrypted).await;
        for damage in damages(&image).iter().step_by(stride(usual)) {
            swept.try_one(&image, damage).await;
        }
    }
    swept
}

/// Flips a random bit of a significant byte, eight times, every second time in the journal; every
/// promise that still holds is kept.
pub async fn flipped(seed: u64) {
    let image = Image::of(seed, false).await;
    let dice = SeededEntropy::new(seed);
    let nth = |length: usize| usize::try_from(dice.next() % length as u64).unwrap();
    let files: Vec<(&String, &Vec<u8>)> = image.files.iter().collect();
    let journal: Vec<usize> =
        (0..files.len()).filter(|n| files[*n].0.starts_with("journal/")).collect();
    for round in 0..8 {
        let (path, at) = loop {
            let any = nth(files.len());
            let (path, bytes) =
                files[if round % 2 == 0 { any } else { journal[nth(journal.len())] }];
            let at = nth(bytes.len().max(1));
            if !bytes.is_empty() && !is_silent(bytes, at) {
                break (path, at);
            }
        };
        image.check(&flip(&image, path, at, (dice.next() % 8) as u8)).await;
    }
}

/// Generations of a settled file, at the byte offsets in docs/format.md.
fn generations(bytes: &[u8]) -> Vec<u64> {
    let (mut at, mut generations) = (64, Vec::new());
    while let Some(head) = bytes.get(at..at + 16) {
        let length = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        generations.push(u64::from_le_bytes(head[8..].try_into().unwrap()));
        at = (at + 16 + length).next_multiple_of(8);
    }
    generations
}

#[tokio::test]
async fn the_image_to_damage_has_every_kind_of_file() {
    for (seed, encrypted) in [(3, false), (3, true), (12, true)] {
        let image = Image::of(seed, encrypted).await;
        let nothing = Damage { told: "nothing".to_owned(), changes: BTreeMap::new() };
        assert_eq!(image.check(&nothing).await, Fate::Whole);
        let segments = |session: &str, end: &str| {
            let hash = image.hash(session);
            let own = image.files.keys().filter(|path| path.contains(&hash) && path.ends_with(end));
            own.filter(|path| image.is_live_segment(path)).count()
        };
        assert!(
            segments("sealed", ".sealed") > 1,
            "sealed segments, and of one the body of an event"
        );
        assert!(segments("open", ".seg") > 0, "an open segment");
        assert_eq!(
            segments("journal", "") + segments("young", ""),
            0,
            "the journal alone has them"
        );
        assert!(segments("fork", "") > 0);
        for (child, parent, at) in FORKS {
            let (own, others) = (&image.events[child], &image.events[parent]);
            let at = at as usize;
            assert!(own[..at] == others[..at] && own.len() > at && others.len() > at, "{child}");
            assert!(own[at..] != others[at..], "{child}");
        }
        assert_eq!(image.events["sealed"][5].body, r#"{"redacted":true}"#);
        assert_eq!(segments(ERASED, ""), 0);
        assert!(image.notes["open"].len() > 2 && image.work["journal"].until.is_some());
        let unflushed = image.unflushed();
        for session in SESSIONS.iter().filter(|session| **session != "sealed") {
            assert!(unflushed.contains(session), "{session} has frames in the journal");
        }
        let [first, second] =
            ["settled/0", "settled/1"].map(|path| generations(&image.files[path]));
        assert!(first.len() > 1 && second.len() > 1, "{first:?} {second:?}");
        assert_eq!(first.last().unwrap().abs_diff(*second.last().unwrap()), 1);
        if encrypted {
            let states: Vec<u8> =
                image.files["keys/0"].chunks(128).skip(1).map(|slot| slot[4]).collect();
            assert!(states.contains(&1) && states.contains(&2), "a key and one that is destroyed");
            let stores: BTreeSet<&Vec<u8>> =
                image.older.iter().map(|files| &files["STORE"]).collect();
            assert_eq!(stores.len(), 3, "before, within and after a change of the master key");
        }
    }
}

async fn flips(seed: u64, encrypted: bool, usual: usize) {
    let image = Image::of(seed, encrypted).await;
    let (mut live, mut noticed, mut swept) = (0, 0, Swept::default());
    for (path, bytes) in &image.files {
        for at in (0..bytes.len()).step_by(stride(usual)).filter(|at| !is_silent(bytes, *at)) {
            let flip = flip(&image, path, at, (at % 8) as u8);
            let fate = swept.try_one(&image, &flip).await;
            // Elsewhere a second copy repairs a flip, or the byte is not needed any more.
            live += u32::from(image.is_live_segment(path));
            noticed += u32::from(image.is_live_segment(path) && fate > Fate::Whole);
        }
    }
    // Padding after a payload is not significant.
    assert!(live > 20 && noticed * 100 >= live * 97, "{noticed} of {live} flips were noticed");
}

#[tokio::test]
async fn a_flipped_bit_is_never_served_and_never_shortens_a_session_silently() {
    flips(3, false, 179).await;
}

#[tokio::test]
async fn a_flipped_bit_of_an_encrypted_store_is_never_served_or_unreported() {
    flips(3, true, 271).await;
}

#[tokio::test]
async fn a_zeroed_sector_is_reported_as_damage_and_not_as_the_tail() {
    let zeroed = |image: &Image| -> Vec<Damage> {
        let zero = |(path, n): (&str, usize)| {
            edit(image, path, &format!("sector {n}"), |bytes| {
                overwrite_sector(bytes, n, &[0; SECTOR])
            })
        };
        sectors(image).into_iter().filter_map(zero).collect()
    };
    assert!(sweep(5, 2, zeroed).await.count() > 90);
}

#[tokio::test]
async fn swapped_sectors_are_recovered_or_reported_as_damage() {
    let swapped = |image: &Image| -> Vec<Damage> {
        let all = sectors(image);
        let dice = SeededEntropy::new(6);
        let mut damages = Vec::new();
        for (nth, (path, one)) in all.iter().enumerate() {
            let far = dice.next() as usize % all.len();
            for (other_path, other) in [all[(nth + 1) % all.len()], all[far]] {
                let told = format!("{path} sector {one} and {other_path} sector {other}");
                let (mut first, mut second) =
                    (image.files[*path].clone(), image.files[other_path].clone());
                let (a, b) = (sector(&first, *one), sector(&second, other));
                overwrite_sector(&mut first, *one, &b);
                if *path == other_path {
                    overwrite_sector(&mut first, other, &a);
                    second.clone_from(&first);
                } else {
                    overwrite_sector(&mut second, other, &a);
                }
                let both = [(*path, Some(first)), (other_path, Some(second))];
                damages.extend(damage(image, told, &both));
            }
        }
        damages
    };
    assert!(sweep(6, 3, swapped).await.count() > 100);
}

#[tokio::test]
async fn a_sector_copied_over_another_is_reported_or_harmless() {
    let copied = |image: &Image| -> Vec<Damage> {
        let all = sectors(image);
        let dice = SeededEntropy::new(7);
        let mut damages = Vec::new();
        for (path, to) in &all {
            for near in [true, false] {
                let own: Vec<_> = all.iter().filter(|(other, _)| !near || other == path).collect();
                let (other, from) = *own[dice.next() as usize % own.len()];
                let told = format!("sector {to} is sector {from} of {other}");
                let bytes = sector(&image.files[other], from);
                damages.extend(edit(image, path, &told, |to_bytes| {
                    overwrite_sector(to_bytes, *to, &bytes)
                }));
            }
        }
        damages
    };
    assert!(sweep(7, 3, copied).await.count() > 100);
}

#[tokio::test]
async fn a_truncated_file_is_reported_and_no_session_is_silently_shorter() {
    let cut = |image: &Image| -> Vec<Damage> {
        let mut damages = Vec::new();
        for (path, bytes) in &image.files {
            let ends = (0..bytes.len()).step_by(SECTOR);
            let near = ends.flat_map(|end| [end, end + ODD, end.saturating_sub(ODD), end + 1]);
            let ends: BTreeSet<usize> = near.chain(bytes.len().checked_sub(1)).collect();
            damages.extend(ends.into_iter().filter_map(|end| {
                edit(image, path, &format!("cut to {end}"), |bytes| bytes.truncate(end))
            }));
        }
        damages
    };
    assert!(sweep(8, 7, cut).await.count() > 100);
}

#[tokio::test]
async fn bytes_missing_from_the_middle_of_a_file_are_reported() {
    let taken = |image: &Image| -> Vec<Damage> {
        let mut damages = Vec::new();
        for (path, n) in sectors(image) {
            for (count, padded) in
                [(1, true), (8, true), (SECTOR, true), (ODD, false), (8, false), (SECTOR, false)]
            {
                let at = n * SECTOR + ODD * count % SECTOR;
                let told = format!("lacks {count} bytes at {at}, padded: {padded}");
                damages.extend(edit(image, path, &told, |bytes| {
                    let length = bytes.len();
                    bytes.drain(at.min(length)..(at + count).min(length));
                    bytes.resize(if padded { length } else { bytes.len() }, 0);
                }));
            }
        }
        damages
    };
    assert!(sweep(9, 9, taken).await.count() > 100);
}

#[tokio::test]
async fn a_missing_or_empty_file_is_reported_if_it_is_needed() {
    let mut swept = Swept::default();
    for encrypted in [false, true] {
        let image = Image::of(10, encrypted).await;
        for (path, bytes) in &image.files {
            for (what, new) in [("missing", None), ("empty", Some(Vec::new()))] {
                let Some(gone) = damage(&image, format!("{path} is {what}"), &[(path, new)]) else {
                    continue;
                };
                let fate = swept.try_one(&image, &gone).await;
                // Some files exist twice, and a flushed journal file is free space.
                let needed = image.is_live_segment(path) || path == "STORE" || *path == image.last;
                assert!(fate > Fate::Whole || !needed, "{path} of {} bytes is {what}", bytes.len());
            }
        }
    }
}

/// Returns each file with its earlier contents, alone, and both files of a pair together.
fn put_back(image: &Image) -> Vec<Damage> {
    let mut damages = Vec::new();
    for (moment, older) in image.older.iter().enumerate() {
        let old = |path: &str| older.get(path).cloned();
        for path in image.files.keys().filter(|path| older.contains_key(*path)) {
            let told = format!("{path} as it was at moment {moment}");
            damages.extend(damage(image, told, &[(path, old(path))]));
        }
        for [one, other] in [["settled/0", "settled/1"], ["keys/0", "keys/1"]] {
            let told = format!("{one} and {other} as they were at moment {moment}");
            if image.files.contains_key(one) {
                damages.extend(damage(image, told, &[(one, old(one)), (other, old(other))]));
            }
        }
    }
    damages
}

#[tokio::test]
async fn an_older_version_of_a_file_is_reported_or_harmless() {
    let mut swept = Swept::default();
    for encrypted in [false, true] {
        let image = Image::of(11, encrypted).await;
        for damage in put_back(&image).iter().step_by(stride(3)) {
            swept.try_one(&image, damage).await;
        }
    }
}

#[tokio::test]
async fn keys_lost_from_both_files_are_reported_and_no_other_session_is_affected() {
    let image = Image::of(12, true).await;
    let mut swept = Swept::default();
    let count = image.files["keys/0"].len();
    let both = |told: String, act: &dyn Fn(&mut Vec<u8>)| {
        let new = ["keys/0", "keys/1"].map(|path| {
            let mut bytes = image.files[path].clone();
            act(&mut bytes);
            (path, Some(bytes))
        });
        damage(&image, told, &new)
    };
    let mut damages: Vec<Damage> = Vec::new();
    for at in (0..count).step_by(stride(37)).filter(|at| !is_silent(&image.files["keys/0"], *at)) {
        damages.extend(both(format!("both keys byte {at}"), &|bytes| bytes[at] ^= 1));
    }
    for end in (0..count).step_by(64) {
        damages.extend(both(format!("both keys cut to {end}"), &|bytes| bytes.truncate(end)));
        damages.extend(both(format!("both keys zero from {end}"), &|bytes| bytes[end..].fill(0)));
    }
    for damage in &damages {
        let fate = swept.try_one(&image, damage).await;
        let mut owners = image.owners(&damage.changes);
        owners.remove(ERASED);
        assert!(owners.is_empty() || fate > Fate::Whole, "{}: {owners:?} {fate:?}", damage.told);
    }
    assert!(swept.0.get(&Fate::Degraded).is_some_and(|count| *count > 10), "{:?}", swept.0);
}

#[tokio::test]
async fn a_loss_found_at_one_start_is_reported_at_every_later_start() {
    let sim = Sim::new(9);
    let store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in ["hurt", "other"] {
        create(&store, session).await;
        append(&store, &key(session), batch([event("{\"n\":0}")])).await.unwrap();
    }
    store.flush().unwrap();
    store.flush().unwrap();
    append(&store, &key("hurt"), batch([event("{\"lost\":\"words\"}")])).await.unwrap();
    append(&store, &key("other"), batch([event("{\"n\":1}")])).await.unwrap();
    sim.power_loss();
    drop(store);
    let journal = sim.read_durable("journal/0").unwrap();
    let at = journal.windows(5).position(|bytes| bytes == b"words").unwrap();
    sim.flip("journal/0", at as u64, 0);
    for start in 0..4 {
        let store = LocalStore::open_local(&sim.env(), small()).unwrap();
        let info = store.info(&key("hurt")).await.unwrap();
        assert_eq!((info.tail, info.damage.len()), (Position(2), 1), "start {start}");
        let refused = append(&store, &key("hurt"), batch([event("{}")])).await;
        assert!(matches!(refused, Err(StoreError::SessionDamaged { .. })), "start {start}");
        append(&store, &key("other"), batch([event("{}")])).await.unwrap();
        store.flush().unwrap();
        store.flush().unwrap();
        sim.power_loss();
        drop(store);
    }
}
