//! The stored form of `file.checked`, which is that of `api::handoff::Look`. It must not follow a
//! renamed field there: stored events have this form.

use sessionlog::{
    api::handoff::{Look, LookStatus},
    projection::body,
};

#[test]
fn a_file_check_event_round_trips_in_the_stored_form() {
    let status =
        |status: LookStatus| Look { path: "a.rs".to_owned(), status, hash: None, hash_now: None };
    let hashes = (Some("blake3:5d8f".to_owned()), Some("blake3:77aa".to_owned()));
    for (look, stored) in [
        (
            Look { hash: hashes.0, hash_now: hashes.1, ..status(LookStatus::Changed) },
            r#"{"path":"a.rs","status":"changed","hash":"blake3:5d8f","hash_now":"blake3:77aa"}"#,
        ),
        (status(LookStatus::Same), r#"{"path":"a.rs","status":"same"}"#),
        (status(LookStatus::Gone), r#"{"path":"a.rs","status":"gone"}"#),
        (status(LookStatus::Denied), r#"{"path":"a.rs","status":"denied"}"#),
        (status(LookStatus::Unchecked), r#"{"path":"a.rs","status":"unchecked"}"#),
    ] {
        let written = body::write(&look);
        assert_eq!(std::str::from_utf8(&written).unwrap(), stored);
        assert_eq!(body::read::<Look>(stored.as_bytes()), Some(look));
    }
}
