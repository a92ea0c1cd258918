//! Several files of which some cannot be imported: the others are, and the failures are counted.

use serde_json::json;

use super::{SESSION, Transcript};
use crate::program::{Place, lines};

/// Returns the session and the text of a transcript.
fn transcript(digit: char) -> (String, String) {
    let session = SESSION.replacen('5', &digit.to_string(), 1);
    let lines = Transcript::default();
    lines.user("Mend the gate");
    lines.says("m1", "It is mended.");
    let text = lines.text().replace(SESSION, &session);
    (session, text)
}

#[test]
fn a_session_that_refuses_an_import_does_not_stop_the_other_files() {
    let place = Place::new();
    let sessions = ['1', '2', '3', '4', '5'].map(transcript);
    let write = |(session, text): &(String, String)| {
        place.write(&format!("{session}.jsonl"), text).to_str().unwrap().to_owned()
    };
    let [archived, deleted, held, whole, last] = sessions.each_ref().map(write);
    place.run(&["import", &archived, &deleted, &held, &whole]).ok();
    place.run(&["archive", &sessions[0].0]).ok();
    place.run(&["delete", "--yes", &sessions[1].0]).ok();
    place.run(&["hold", &sessions[2].0]).ok();
    for of in &sessions {
        let more = of.1.clone()
            + &of.1.lines().last().unwrap().replace("\"n2\"", "\"n3\"").replace("mended", "shut")
            + "\n";
        write(&(of.0.clone(), more));
    }
    let missing = place.path("none.jsonl").to_str().unwrap().to_owned();
    let files = [&*archived, &*deleted, &*missing, &*held, &*whole, &*last];
    let ran = place.run(&[&["import"], &files[..]].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    for said in [
        &*format!("`sessionlog unarchive {}`", sessions[0].0),
        &*format!("`sessionlog restore {}`", sessions[1].0),
        "none.jsonl",
        "skipped 2 of 5 conversations",
        "1 of 6 files could not be imported",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    for said in ["clear_session", "stepNumber"] {
        assert!(!ran.err.contains(said), "{said}: {}", ran.err);
    }
    for (session, _) in &sessions[2..] {
        let events = place.events(session);
        assert!(json!(events).to_string().contains("It is shut."), "{session}");
    }
    let ran = place.run(&[&["import", "--json"], &files[..]].concat());
    let reports = lines(&ran.out);
    assert_eq!((ran.code, reports.len()), (1, 6), "{}", ran.out);
    assert!(reports[2]["error"]["message"].is_string(), "{}", reports[2]);
    assert!(reports[2]["file"].as_str().unwrap().ends_with("none.jsonl"));
}
