//! The real data directory: private, sorted, not escaped by a path or a link, locked once.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use sessionlog::env::{DirEntry, LOCK_FILE, Storage as _, disk::DataDir};

fn data_dir() -> (tempfile::TempDir, DataDir) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let disk = DataDir::open(&home.path().join("a/data")).expect("a data directory");
    (home, disk)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

#[test]
fn created_files_are_private_to_their_user() {
    let (home, disk) = data_dir();
    disk.create_dir("sub").expect("created");
    disk.create_dir("sub").expect("an existing directory is success");
    disk.create("sub/file").expect("created");
    let data = home.path().join("a/data");
    assert_eq!(mode(&home.path().join("a")), 0o700);
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("sub")), 0o700);
    assert_eq!(mode(&data.join("sub/file")), 0o600);
    assert!(disk.create("sub/file").is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists));
}

#[test]
fn written_bytes_round_trip_and_names_are_listed_in_order() {
    let (_home, disk) = data_dir();
    let file = disk.create("b").expect("created");
    file.write_at(3, b"abc").expect("written");
    file.sync().expect("synced");
    file.evict().expect("evicted");
    let mut buffer = [9; 8];
    assert_eq!(file.read_at(0, &mut buffer).expect("read"), 6);
    assert_eq!(&buffer[..6], b"\0\0\0abc");
    assert_eq!(file.read_at(6, &mut buffer).expect("read at the end"), 0);
    disk.create_dir("a").expect("created");
    disk.rename("b", "a/c").expect("renamed");
    disk.sync_dir("a").expect("synced");
    disk.sync_dir("").expect("synced");
    disk.sync_all().expect("synced");
    let entry = |name: &str, is_dir| DirEntry { name: name.to_owned(), is_dir, is_file: !is_dir };
    assert_eq!(disk.list("").expect("listed"), [entry("a", true)]);
    assert_eq!(disk.list("a").expect("listed"), [entry("c", false)]);
    assert_eq!(disk.open_read("a/c").and_then(|file| file.len()).expect("opened"), 6);
    disk.remove("a/c").expect("removed");
    assert!(disk.open("a/c").is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
}

#[test]
fn a_path_that_escapes_the_directory_is_rejected() {
    let (_home, disk) = data_dir();
    for path in ["", "..", "../x", "a/../b", "/etc/passwd", "a//b", "./a", "a/", "a\0b"] {
        let refused = disk.create(path).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::InvalidInput), "{path:?}");
    }
}

#[test]
fn a_symbolic_link_is_not_followed_at_any_depth() {
    let (home, disk) = data_dir();
    let data = home.path().join("a/data");
    let outside = home.path().join("outside");
    fs::create_dir(&outside).expect("created");
    fs::write(outside.join("file"), b"theirs").expect("written");
    symlink(outside.join("file"), data.join("link")).expect("linked");
    symlink(&outside, data.join("dir")).expect("linked");
    assert!(disk.open("link").is_err());
    assert!(disk.open_read("dir/file").is_err());
    assert!(disk.create_dir("dir").is_err());
    assert!(disk.list("dir").is_err());
    assert!(disk.create("dir/new").is_err());
}

#[test]
fn a_file_with_a_second_hard_link_is_not_written() {
    let (home, disk) = data_dir();
    let theirs = home.path().join("theirs");
    fs::write(&theirs, b"theirs").expect("written");
    for name in ["link", LOCK_FILE] {
        fs::hard_link(&theirs, home.path().join("a/data").join(name)).expect("linked");
    }
    let told = |error: io::Error| error.to_string().contains("hard link");
    assert!(disk.open("link").err().is_some_and(told));
    assert!(disk.lock().err().is_some_and(told));
    assert!(disk.open_read("link").is_ok(), "what is read proves itself");
    fs::remove_file(&theirs).expect("removed");
    assert!(disk.open("link").is_err(), "the lock's file is still the same");
    fs::remove_file(home.path().join("a/data").join(LOCK_FILE)).expect("removed");
    assert!(disk.open("link").is_ok());
}

#[test]
fn a_file_that_is_not_regular_is_not_opened() {
    let (_home, disk) = data_dir();
    disk.create_dir("d").expect("created");
    assert!(disk.open_read("d").is_err());
}

#[test]
fn a_second_owner_gets_the_lock_only_after_the_first_releases_it() {
    let (home, disk) = data_dir();
    let other = DataDir::open(&home.path().join("a/data")).expect("opened");
    let held = disk.lock().expect("asked").expect("granted");
    assert!(other.lock().expect("asked").is_none());
    drop(held);
    assert!(other.lock().expect("asked").is_some());
}

#[test]
fn a_second_owner_is_rejected_even_if_the_lock_file_was_removed() {
    let (home, disk) = data_dir();
    let data = home.path().join("a/data");
    let _held = disk.lock().expect("asked").expect("granted");
    fs::remove_file(data.join(LOCK_FILE)).expect("removed");
    assert!(DataDir::open(&data).expect("opened").lock().expect("asked").is_none());
}
