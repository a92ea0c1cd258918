//! The headers in which a front end names the caller.

use sessionlog::{
    event::SessionId,
    service::{ClientIdentity, LastUse},
    wire::tools::via::{CONNECTION, DIRECTORY, REMEMBERED, SESSION, read, write},
};

#[test]
fn front_end_headers_round_trip() {
    let id = |text: &str| Some(SessionId::new(text).expect("an id"));
    let remembered = |session, fresh| Some(LastUse { session, fresh });
    for via in [
        ClientIdentity::default(),
        ClientIdentity {
            session: id("s"),
            connection: Some("c 1".to_owned()),
            ..ClientIdentity::default()
        },
        ClientIdentity {
            directory: Some("/home/é/100% mine\n+x".to_owned()),
            ..ClientIdentity::default()
        },
        ClientIdentity { root: Some("/home/é".to_owned()), ..ClientIdentity::default() },
        ClientIdentity { remembered: remembered(id("a"), false), ..ClientIdentity::default() },
        ClientIdentity { remembered: remembered(id("a"), true), ..ClientIdentity::default() },
        ClientIdentity { remembered: remembered(None, true), ..ClientIdentity::default() },
    ] {
        let headers = write(&via);
        assert!(headers.iter().all(|(_, text)| text.is_ascii()));
        let header = |name: &str| {
            headers.iter().find(|(known, _)| *known == name).map(|(_, text)| text.clone())
        };
        assert_eq!(read(header), Ok(via));
    }
}

#[test]
fn an_invalid_session_header_is_rejected_with_an_error_naming_it() {
    for (name, text) in [(SESSION, "../x"), (REMEMBERED, "--"), (CONNECTION, &"c".repeat(129))] {
        let error = read(|asked| (asked == name).then(|| text.to_owned()));
        assert_eq!(error.expect_err(name).hint.field.as_deref(), Some(name));
    }
    let lone = read(|asked| (asked == DIRECTORY).then(|| "/a%2".to_owned()));
    assert_eq!(lone.map(|via| via.directory), Ok(Some("/a%2".to_owned())));
}
