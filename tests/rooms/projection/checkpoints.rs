//! Checkpoints as deltas of their parents, in a bounded chain.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use sessionlog::{
    event::{Lsn, Note, NoteKind, Position, Timestamp},
    projection::{
        body::{CheckpointBody, Trigger},
        checkpoints::{Checkpoints, diff, merge},
    },
};

/// Maximum notes read for one state.
const CHAIN_MAX: usize = 512;

/// Returns true if a merge patch cannot express this value: a null in an object removes the member.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(holds_null),
        _ => false,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

fn note(number: u64, name: &str, body: &Value) -> Note {
    Note {
        number: Lsn(number),
        kind: NoteKind::Checkpoint,
        name: name.to_owned(),
        position: Position(number * 10),
        at: Timestamp(0),
        body: Bytes::from(body.to_string()),
    }
}

fn folded(notes: &[Note]) -> Checkpoints {
    let mut folded = Checkpoints::default();
    notes.iter().for_each(|note| folded.fold(note));
    folded
}

#[test]
fn a_checkpoint_defaults_to_the_previous_one_of_its_thread_as_parent() {
    let notes = [
        note(1, "a", &json!({"label":"start"})),
        note(2, "b", &json!({"thread":"side"})),
        note(3, "c", &json!({"label":"start"})),
        note(4, "d", &json!({"thread":"side","by":"timer"})),
        note(5, "e", &json!({"parent":"a"})),
        note(6, "f", &json!({"parent":"nobody"})),
    ];
    let folded = folded(&notes);
    let parent = |id: &str| {
        let found = folded.find(id).unwrap();
        folded.parent(found).map(|parent| parent.id.as_str())
    };
    let parents = ["a", "b", "c", "d", "e", "f"].map(parent);
    assert_eq!(parents, [None, None, Some("a"), Some("b"), Some("a"), Some("e")]);
    assert_eq!(folded.find("start").map(|found| found.id.as_str()), Some("c"));
    assert_eq!(folded.find("d").map(|found| found.trigger), Some(Trigger::Timer));
    let latest =
        |thread: Option<&Option<String>>| folded.latest(thread).map(|found| found.id.as_str());
    assert_eq!((latest(None), latest(Some(&Some("side".to_owned())))), (Some("f"), Some("d")));
    assert_eq!(latest(Some(&Some("none".to_owned()))), None);
}

#[test]
fn a_state_chain_skips_stateless_checkpoints_and_ends_at_a_full_state() {
    let notes = [
        note(1, "a", &json!({"delta":{"n":1}})),
        note(2, "b", &json!({"by":"tool_call"})),
        note(3, "c", &json!({"delta":{"n":2}})),
        note(4, "d", &json!({"base":{"n":3}})),
        note(5, "e", &json!({"delta":{"n":4}})),
        note(6, "f", &json!({"parent":"b","delta":{"n":5}})),
        note(7, "g", &json!({"by":"timer"})),
        note(8, "h", &json!("no body of ours")),
    ];
    let folded = folded(&notes);
    let chain = |id: &str| -> Vec<u64> {
        let chain = folded.state_notes(folded.find(id).unwrap());
        chain.into_iter().map(|number| number.0).collect()
    };
    for (id, wanted) in [
        ("a", vec![1]),
        ("b", vec![1]),
        ("c", vec![1, 3]),
        ("d", vec![4]),
        ("e", vec![4, 5]),
        ("f", vec![1, 6]),
        ("g", vec![1, 6]),
        ("h", vec![1, 6]),
    ] {
        assert_eq!(chain(id), wanted, "{id}");
    }
}

#[test]
fn a_state_delta_without_its_base_returns_no_state() {
    let notes = [
        note(1, "a", &json!({"base":{"n":1}})),
        note(3, "c", &json!({"parent":"b","delta":{"n":3}})),
        note(4, "d", &json!({"parent":"c","delta":{"n":4}})),
        note(5, "e", &json!({"base":{"n":5}})),
    ];
    let folded = folded(&notes);
    let chain = |id: &str| folded.state_notes(folded.find(id).unwrap());
    assert_eq!(chain("c"), [0, 3].map(Lsn), "no note has the number 0");
    assert_eq!((chain("d"), chain("e")), (vec![Lsn(0), Lsn(3), Lsn(4)], vec![Lsn(5)]));
    assert!(folded.parent(folded.find("c").unwrap()).is_none());
}

#[test]
fn a_cursor_keeps_its_last_position_until_it_is_removed() {
    let cursor = |number: u64, name: &str, body: &str| Note {
        kind: NoteKind::Cursor,
        body: Bytes::copy_from_slice(body.as_bytes()),
        ..note(number, name, &Value::Null)
    };
    let mut notes = vec![cursor(1, "me", "{}"), cursor(2, "you", "{}"), cursor(3, "me", "{}")];
    let found = folded(&notes);
    assert_eq!(found.cursor("me").map(|cursor| cursor.position), Some(Position(30)));
    assert_eq!(found.cursors().len(), 2);
    notes.push(cursor(4, "me", ""));
    let found = folded(&notes);
    assert_eq!((found.cursor("me"), found.count, found.last), (None, 4, Lsn(4)));
    assert!(found.all().is_empty());
}

#[test]
fn reading_a_state_is_bounded_and_writing_it_proportional_to_its_change() {
    let (mut found, mut written) = (Checkpoints::default(), 0);
    let mut state = object(json!({"kept": "x".repeat(20_000)}));
    for n in 0..5_000_u64 {
        let delta = object(json!({"n": n}));
        merge(&mut state, delta.clone());
        let whole = found.latest(None).is_none_or(|last| Checkpoints::needs_full_state(last, 20));
        let body = match whole {
            true => CheckpointBody { base: Some(state.clone()), ..CheckpointBody::default() },
            false => CheckpointBody { delta: Some(delta), ..CheckpointBody::default() },
        };
        let bytes = serde_json::to_vec(&body).unwrap();
        written += bytes.len();
        found.fold(&Note { body: bytes.into(), ..note(n + 1, &format!("c{n}"), &Value::Null) });
        let chain = found.state_notes(found.latest(None).unwrap());
        assert!(chain.len() <= CHAIN_MAX, "{}", chain.len());
    }
    assert!(written < 5_000 * 100, "{written} bytes for states of 100 MB together");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..9_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            members(inner).prop_map(Value::Object),
        ]
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-c]", value, 0..4)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    #[test]
    fn a_delta_applied_to_the_old_state_returns_the_new_state(
        old in members(value()), new in members(value()),
    ) {
        match diff(&old, &new) {
            Some(patch) => {
                let mut state = old;
                merge(&mut state, patch);
                prop_assert_eq!(state, new);
            }
            None => prop_assert!(new.values().any(holds_null)),
        }
    }
}
