//! The fixture `encrypted-backup`: a backup with segments, sealed and open, a deleted session, and
//! frames that were not flushed. It is restored, and the decoder reads it directly. It must not
//! change a directory under version control: `UPDATE=1` creates a missing one.

use std::{collections::BTreeSet, ffi::OsString, fs, io, path::Path, sync::Arc};

use serde_json::{Value, json};
use sessionlog::{
    env::{Env, disk::DataDir},
    event::Timestamp,
    store::{
        Maintain, NewSession, SessionUpdate, Store,
        local::{self, BackupWriter, LocalStore},
    },
};
use sessionlog_sim::{Fault, Sim};

use super::{
    check_decoder, copy, decoded, expected, files, fixture, keys_of, said, sessions, varied,
};
use crate::engines::{append, batch, create, event, key, machine, small};

const NAME: &str = "encrypted-backup";
const SESSIONS: u64 = 4;

fn env(directory: &Path) -> Env {
    machine(Arc::new(DataDir::open(directory).unwrap())).0
}

/// Makes a backup; returns the content of the store at that moment.
async fn fill(directory: &Path) -> (Value, Timestamp) {
    let sim = Sim::new(81);
    sim.set_keys(keys_of(NAME).map(|keys| (*keys).clone()));
    let mut store = LocalStore::open_local(&sim.env(), small()).unwrap();
    for session in sessions() {
        let title = Some(format!("The {} one", session.session.as_str()));
        let new = NewSession { id: Some(session.session.clone()), title, ..NewSession::default() };
        store.create(&session.scope, new).await.unwrap();
    }
    create(&store, "gone").await;
    append(&store, &key("gone"), batch([event("{}")])).await.unwrap();
    let delete = SessionUpdate { discard: true, ..SessionUpdate::default() };
    store.change(&key("gone"), delete).await.unwrap();
    let [open, sealed, journal] = sessions();
    for n in 0..40 {
        let text = "lorem ipsum ".repeat(40);
        append(&store, &sealed, batch([varied(n, &text)])).await.unwrap();
    }
    store.close().await;
    store = LocalStore::open_local(&sim.env(), small()).unwrap();
    append(&store, &open, batch([varied(0, "open"), event("{}")])).await.unwrap();
    store.flush().unwrap();
    // From here on no frame reaches a segment: pending frames are copied.
    sim.fail_writing("segments", Fault::Io);
    for n in 0..3 {
        for session in [&open, &journal] {
            append(&store, session, batch([varied(20 + n, "waits")])).await.unwrap();
        }
    }
    let said = said(&store).await;
    let (outer, inner) = (env(directory), env(&directory.join("data")));
    let mut incoming = BackupWriter::begin(&outer, &inner).unwrap();
    let made = store
        .backup(&mut |part| incoming.write_part(&part.path, &part.bytes).map_err(io::Error::other));
    let made = made.unwrap();
    let ends =
        files(directory).into_iter().filter_map(|(path, _)| path.extension().map(OsString::from));
    assert_eq!(ends.collect::<BTreeSet<_>>(), ["seg", "sealed"].map(OsString::from).into());
    assert_eq!((made.sessions, made.damaged), (SESSIONS, 0));
    incoming.finish_parts(&made).unwrap();
    incoming.seal().unwrap();
    for name in ["LOCK", "data/LOCK"] {
        let _ = fs::remove_file(directory.join(name));
    }
    (said, made.at)
}

#[tokio::test]
async fn an_old_backup_is_restored_with_the_same_events() {
    let home = tempfile::tempdir().unwrap();
    if std::env::var_os("UPDATE").is_some() && !fixture(NAME).exists() {
        let (expected, _) = fill(&home.path().join("new")).await;
        copy(&home.path().join("new"), &fixture(NAME));
        let text = serde_json::to_string_pretty(&expected).unwrap();
        fs::write(fixture(NAME).join("expected.json"), text + "\n").unwrap();
    }
    let expected = expected(NAME);
    let from = home.path().join("backup");
    copy(&fixture(NAME), &from);
    let to = env(&home.path().join("to")).with_keys(keys_of(NAME));
    let (outer, inner) = (env(&from), env(&from.join("data")));
    let back = local::restore(&outer, &inner, &to, small(), &mut |_, _| {}).await.unwrap();
    assert_eq!((back.manifest.sessions, back.verified.damage), (SESSIONS, vec![]));
    let store = LocalStore::open_local(&to, small()).unwrap();
    assert_eq!(said(&store).await, expected);
    append(&store, &key("open"), batch([event("{\"new\":1}")])).await.unwrap();
}

#[tokio::test]
async fn a_decoder_written_from_the_document_reads_an_old_backup_and_a_new_one() {
    // The expectations are next to the directory, not in it.
    let home = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| home.path().join(name));
    copy(&fixture(NAME), &old);
    fs::remove_file(old.join("expected.json")).unwrap();
    let (said, at) = fill(&new).await;
    for (directory, expected) in [(&old, expected(NAME)), (&new, said)] {
        check_decoder(directory, &expected, NAME);
    }
    let Some(document) = decoded(&new) else { return };
    assert_eq!(document["backup"], json!({ "at": at.0, "sessions": SESSIONS }));
    let sessions = document["sessions"].as_array().unwrap();
    assert_eq!(sessions.len() as u64, SESSIONS);
    let gone = sessions.iter().filter(|session| !session["deleted_at"].is_null());
    assert_eq!(gone.count(), 1);
    // Another number of sessions, a changed byte of any other file, and a missing file.
    for (path, bytes) in files(&old) {
        let mut changed = bytes.clone();
        let number = b"\nsessions ";
        let line = changed.windows(number.len()).position(|part| part == number);
        match line.map_or(changed.len() / 2, |at| at + number.len()) {
            0 => fs::remove_file(&path).unwrap(),
            place => {
                changed[place] ^= 1;
                fs::write(&path, changed).unwrap();
            }
        }
        let document = decoded(&old).unwrap();
        assert_ne!(document["problems"], json!([]), "{}", path.display());
        fs::write(&path, bytes).unwrap();
    }
}
