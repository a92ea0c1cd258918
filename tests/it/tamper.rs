//! Files of a stopped store that are truncated, missing, restored from older copies or copied over
//! each other: every event that is served was written, and no shortened session is reported as
//! whole. It must not expect an engine to repair anything. Single bytes are flipped in `damage`.

use sessionlog_sim::Sim;

use crate::{
    fuzz_seeds::recover::{Fate, Image, encrypted, killed, stopped, survive},
    life::asked,
};

/// Judges a change of the file at `path`: it must be reported or harmless.
fn told_or_harmless(image: &Image, path: &str, what: &str, change: impl FnOnce(&Sim)) -> Fate {
    let fate = survive(image, change);
    assert_ne!(fate, Fate::Shorter, "{path} {what}: a session is silently shorter");
    fate
}

/// Returns stores left by their owners, in plaintext and encrypted.
fn images() -> [&'static Image; 4] {
    let [clean, dead] = encrypted();
    [stopped(), killed(), clean, dead]
}

fn kind(path: &str) -> &str {
    path.split('/').next().unwrap()
}

#[test]
fn a_truncated_or_missing_file_is_reported() {
    for image in images() {
        let mut told = 0;
        for (nth, (path, bytes)) in image.files.iter().enumerate() {
            let lengths = [0, bytes.len() / 2, bytes.len().saturating_sub(1)];
            // Each file gets one length in turn, or every length if seeds are requested.
            let every = asked("SESSIONLOG_SEEDS").is_some();
            for (at, length) in lengths.into_iter().enumerate() {
                if !every && at != nth % lengths.len() {
                    continue;
                }
                let cut = |sim: &Sim| sim.truncate_durable(path, length as u64);
                told_or_harmless(image, path, &format!("cut to {length}"), cut);
            }
            let fate = told_or_harmless(image, path, "gone", |sim| sim.remove_durable(path));
            told += usize::from(path.starts_with("segments") && fate == Fate::Told);
        }
        assert!(told > 0, "some segment was needed");
    }
}

#[test]
fn a_start_serves_every_event_with_either_settled_file_alone() {
    for image in images() {
        for path in ["settled/0", "settled/1"] {
            let gone = survive(image, |sim| sim.remove_durable(path));
            assert_eq!(gone, Fate::Whole, "{path} is gone");
            let spoiled = survive(image, |sim| sim.zero_sector(path, 0));
            assert_eq!(spoiled, Fate::Whole, "{path} is spoiled");
        }
    }
}

#[test]
fn an_older_copy_of_a_file_is_reported_or_harmless() {
    let [clean, dead] = encrypted();
    for (old, new) in [(killed(), stopped()), (dead, clean)] {
        for (path, _) in &new.files {
            let before = old.files.iter().find(|(other, _)| other == path);
            let Some((_, bytes)) = before else { continue };
            told_or_harmless(new, path, "put back", |sim| {
                sim.truncate_durable(path, 0);
                sim.write_durable(path, 0, bytes);
            });
        }
    }
}

#[test]
fn a_file_copied_over_another_is_reported_or_harmless() {
    for image in images() {
        for ((path, _), (other, bytes)) in image.files.iter().zip(image.files.iter().skip(1)) {
            if kind(path) == kind(other) {
                told_or_harmless(image, path, &format!("overwritten by {other}"), |sim| {
                    sim.truncate_durable(path, 0);
                    sim.write_durable(path, 0, bytes);
                });
            }
        }
    }
}

#[test]
fn an_unchanged_store_opens_undamaged() {
    for image in images() {
        assert_eq!(survive(image, |_| {}), Fate::Whole);
    }
}
