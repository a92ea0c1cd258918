//! Valid and invalid event types.

use sessionlog::event::{EventType, IdError, kinds::ALL};

#[test]
fn a_stored_event_type_is_not_validated_again() {
    assert_eq!(EventType::from_stored("bare").as_str(), "bare");
}

#[test]
fn an_event_type_is_a_domain_and_an_action() {
    for good in ["user.message", "a.b", "agent.tool_use.partial", "x-1.y_2"] {
        assert_eq!(EventType::new(good).as_ref().map(EventType::as_str), Ok(good));
    }
    for bad in ["x", ".", "..", ".x", "x.", "a..b", "a.b."] {
        assert_eq!(EventType::new(bad), Err(IdError::Parts), "{bad}");
    }
}

#[test]
fn every_registered_event_type_is_valid_and_unique() {
    for (at, text) in ALL.iter().enumerate() {
        assert!(EventType::new(text).is_ok(), "{text}");
        assert!(!ALL[..at].contains(text), "{text}");
    }
}
