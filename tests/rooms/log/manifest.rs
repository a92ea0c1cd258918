//! The manifest of a data directory.

use sessionlog::{
    event::KeyId,
    log::manifest::{FileHasher, Manifest, ManifestError},
};

fn manifest() -> Manifest {
    let mut hashing = FileHasher::default();
    hashing.update(b"some bytes");
    let files = vec![hashing.entry("segments/ab/x.seg"), FileHasher::default().entry("journal/1")];
    Manifest { store: [0xa7; 16], at: -3, sessions: 12, key: Some(KeyId([1; 8])), files }
}

#[test]
fn the_manifest_of_a_backup_round_trips() {
    for wanted in [manifest(), Manifest::default()] {
        assert_eq!(Manifest::decode(&wanted.encode()), Ok(wanted));
    }
}

#[test]
fn an_incomplete_or_altered_backup_is_rejected() {
    let text = manifest().encode();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for end in &ends[..ends.len() - 1] {
        assert_eq!(Manifest::decode(&text[..*end]), Err(ManifestError::Incomplete), "{end}");
    }
    for at in ends[0]..text.len() - 1 {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        let changed = String::from_utf8(changed).expect("ASCII");
        assert!(Manifest::decode(&changed).is_err(), "{at}");
    }
    for (other, problem) in [
        ("", ManifestError::Foreign),
        ("sessionlog\n", ManifestError::Foreign),
        ("sessionlog backup 2\nend\n", ManifestError::Newer),
    ] {
        assert_eq!(Manifest::decode(other), Err(problem), "{other}");
    }
    assert_eq!(Manifest::decode(&Manifest::placeholder()), Err(ManifestError::Incomplete));
}
