//! Conversion of a store's errors to errors of the service.

use sessionlog::{
    event::{Position, Range, SessionId},
    service::{Code, ServiceError},
    store::{SessionGap, StoreError},
};

#[test]
fn a_damaged_session_error_names_its_intact_and_missing_ranges() {
    let gap = |from, to| SessionGap {
        range: Range::new(Position(from), Position(to)),
        reason: "checksum".to_owned(),
        accepted_at: None,
    };
    let error = ServiceError::from(StoreError::SessionDamaged {
        session: SessionId::new("s").expect("an id"),
        gaps: vec![gap(0, 2), gap(5, 6)],
        tail: Position(9),
    });
    assert_eq!(error.code, Code::SessionDamaged);
    let whole: Vec<String> = error.hint.whole.iter().map(ToString::to_string).collect();
    assert_eq!(whole, ["2..5", "6..9"]);
    let missing: Vec<String> = error.hint.missing.iter().map(|(r, _)| r.to_string()).collect();
    assert_eq!(missing, ["0..2", "5..6"]);
}
