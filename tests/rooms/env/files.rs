//! Files outside the data directory: written atomically, read up to a bound.

use std::{io, io::Write as _, path::PathBuf};

use sessionlog::env::files::{append, create, list, open, path_info, read, read_text, remove};

#[test]
fn an_output_file_appears_complete_or_not_at_all() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("export.jsonl");
    let mut output = create(&path).expect("created");
    output.write_all(b"half").expect("written");
    drop(output);
    assert_eq!(list(home.path()).expect("listed"), Vec::<PathBuf>::new());
    let mut output = create(&path).expect("created");
    output.write_all(b"whole\n").expect("written");
    output.finish().expect("finished");
    assert_eq!(read_text(&path, 100).expect("read"), "whole\n");
    let found = path_info(&path).expect("looked").expect("there");
    assert_eq!((found.mode, found.bytes, found.is_dir), (0o600, 6, false));
}

#[test]
fn a_file_larger_than_the_requested_maximum_is_rejected() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("config.toml");
    append(&path, b"12345").expect("appended");
    append(&path, b"678").expect("appended");
    assert_eq!(read(&path, 8).expect("read"), b"12345678");
    assert!(read(&path, 7).is_err_and(|e| e.kind() == io::ErrorKind::FileTooLarge));
    assert_eq!(open(&path).expect("opened").bytes, Some(8));
    assert!(open(home.path()).is_err_and(|e| e.kind() == io::ErrorKind::IsADirectory));
    remove(&path).expect("removed");
    remove(&path).expect("an absent file is success");
    assert_eq!(path_info(&path).expect("looked"), None);
}
