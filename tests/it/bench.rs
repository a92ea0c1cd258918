//! `sessionlog bench`, in rounds of a few milliseconds: every row has a figure, its directory is
//! gone afterwards, also when a signal ended it. Nothing here depends on how fast anything is.

use std::{fs, path::Path};

use crate::program::Place;

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn every_row_has_a_figure_and_nothing_is_left_behind() {
    let (place, disk) = (Place::new(), tempfile::tempdir().unwrap());
    let directory = disk.path().to_str().unwrap();
    let ran = place.run(&["bench", "--json", "--seconds", "0.01", "--dir", directory]).json();
    let rows = ran["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["disk", "engine.1", "engine.64", "http.1", "http.64"]);
    for row in rows {
        assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["rounds"].as_array().unwrap().len(), 3, "{row}");
        assert_eq!(row["ratio"].is_number(), row["id"] != "disk", "{row}");
    }
    assert!(is_empty(disk.path()));
}

#[test]
fn a_directory_that_is_none_is_wrong_usage() {
    assert_eq!(Place::new().run(&["bench", "--dir", "/dev/null/x"]).code, 2);
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let (place, disk) = (Place::new(), tempfile::tempdir().unwrap());
    let directory = disk.path().to_str().unwrap();
    let arguments = ["bench", "--seconds", "600", "--dir", directory];
    let mut child = place.command(&arguments).spawn().unwrap();
    while is_empty(disk.path()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_empty(disk.path()));
}
