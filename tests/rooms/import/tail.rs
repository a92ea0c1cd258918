//! The end of a growing transcript.

use std::io::Cursor;

use sessionlog::{
    import::{
        JsonMembers, TranscriptProgram,
        tail::{NewLines, ReadOffset, TAIL_BYTES, TranscriptChange, read_since},
    },
    secrets::{MaskedText, Recogniser},
};

/// Maximum events of one read.
const EVENTS_MAX: usize = 500;
const CLAUDE: &str = include_str!("../../fixtures/transcripts/claude-code.jsonl");
const CODEX: &str = include_str!("../../fixtures/transcripts/codex.jsonl");

fn read_new_lines(text: &str, program: TranscriptProgram, place: Option<&ReadOffset>) -> NewLines {
    read_since(
        &mut Cursor::new(text.as_bytes()),
        program,
        place,
        &|_, _| true,
        &Recogniser::default(),
    )
    .expect("memory is readable")
}

fn message_texts(tail: &NewLines) -> Vec<String> {
    let is_message =
        |event: &&String| member_text(event, "type").is_some_and(|kind| kind.ends_with(".message"));
    tail.events
        .iter()
        .filter(is_message)
        .filter_map(|event| member_text(event, "content"))
        .collect()
}

fn member_text(event: &str, name: &str) -> Option<String> {
    JsonMembers::read(event).expect("an object").text(name)
}

#[test]
fn text_and_requests_are_read_with_the_ids_of_an_import() {
    let tail = read_new_lines(CLAUDE, TranscriptProgram::ClaudeCode, None);
    let museums = "I look for museums. \u{2028} ok";
    assert_eq!(message_texts(&tail), [museums, "The canteen of the museum."]);
    assert_eq!(tail.branch.as_ref().map(MaskedText::as_str), Some("main"));
    let ids: Vec<String> =
        tail.events.iter().filter_map(|event| member_text(event, "id")).collect();
    let requests = ids.iter().filter(|id| id.starts_with("usage-")).count();
    assert_eq!(requests, 5, "messages 1, 2 and 5, and 3 and 4 of a subagent");
    let of_thread = |event: &&String| member_text(event, "session_thread_id").is_some();
    assert_eq!(tail.events.iter().filter(of_thread).count(), 2);
    let mut import = sessionlog::import::Transcript::new(TranscriptProgram::ClaudeCode);
    let line = |(at, text)| {
        let before = if at == 0 { "" } else { "\n" };
        import.process_line(&JsonMembers::read(text).expect("an object"), text, before)
    };
    let lines = CLAUDE.lines().enumerate();
    let imported: Vec<String> = lines.flat_map(line).map(|one| one.id).collect();
    let words = ids.iter().filter(|id| id.starts_with("line-"));
    words.for_each(|id| assert!(imported.contains(id), "{id}"));
    let tail = read_new_lines(CODEX, TranscriptProgram::Codex, None);
    assert_eq!(message_texts(&tail), ["There are three."]);
}

#[test]
fn a_codex_request_is_reported_once() {
    let line = |at: u32, total: u32| {
        let last = r#"{"input_tokens":20,"cached_input_tokens":5,"output_tokens":3}"#;
        let info = format!(
            r#"{{"total_token_usage":{{"total_tokens":{total}}},"last_token_usage":{last}}}"#
        );
        let payload = format!(r#"{{"type":"token_count","info":{info}}}"#);
        format!(r#"{{"timestamp":"2026-11-20T09:0{at}:00Z","type":"t","payload":{payload}}}"#)
            + "\n"
    };
    let tail = read_new_lines(
        &(line(1, 23) + &line(2, 23) + &line(3, 46)),
        TranscriptProgram::Codex,
        None,
    );
    assert_eq!(tail.events.len(), 2);
    let usage = r#""input_tokens_details":{"cached_tokens":5}"#;
    assert!(tail.events.iter().all(|one| one.contains(usage)), "{:?}", tail.events);
}

#[test]
fn a_codex_request_has_the_model_of_its_turn_and_the_size_of_its_context() {
    let line = |kind: &str, payload: &str| {
        format!(r#"{{"timestamp":"2026-11-20T09:00:00Z","type":"{kind}","payload":{payload}}}"#)
            + "\n"
    };
    let turn = line("turn_context", r#"{"cwd":"/w","model":"gpt-5.2-codex"}"#);
    let used = |total: u32| {
        let info = format!(
            r#"{{"total_token_usage":{{"total_tokens":{total}}},"last_token_usage":{{"total_tokens":9}},"model_context_window":272000}}"#
        );
        line("event_msg", &format!(r#"{{"type":"token_count","info":{info}}}"#))
    };
    let has_both = |events: &[String]| {
        let expected = [r#""model":"gpt-5.2-codex""#, r#""context_window":272000"#];
        events.len() == 1 && expected.iter().all(|member| events[0].contains(member))
    };
    let begun = turn + &used(9);
    let tail = read_new_lines(&begun, TranscriptProgram::Codex, None);
    assert!(has_both(&tail.events), "{:?}", tail.events);
    // The context of the turn is before the offset.
    let tail = read_new_lines(&(begun + &used(18)), TranscriptProgram::Codex, Some(&tail.place));
    assert!(has_both(&tail.events), "{:?}", tail.events);
}

#[test]
fn each_line_is_read_once_and_a_torn_one_after_it_is_complete() {
    let whole = CLAUDE.len();
    let mut all = Vec::new();
    let mut place = None;
    for cut in (0..whole).step_by(997).chain([whole]) {
        let tail = read_new_lines(
            CLAUDE.get(..cut).expect("ASCII"),
            TranscriptProgram::ClaudeCode,
            place.as_ref(),
        );
        assert_eq!(tail.place.again, None, "{cut}");
        all.extend(message_texts(&tail));
        place = Some(tail.place);
    }
    assert_eq!(all, message_texts(&read_new_lines(CLAUDE, TranscriptProgram::ClaudeCode, None)));
    assert_eq!(place.map(|place| place.bytes), Some(whole as u64));
}

#[test]
fn a_truncated_or_rewritten_transcript_is_read_again_and_reported() {
    let all = read_new_lines(CLAUDE, TranscriptProgram::ClaudeCode, None);
    let half = CLAUDE.get(..CLAUDE.len() / 2).expect("ASCII");
    let other = "x".repeat(CLAUDE.len()) + "\n" + CLAUDE;
    for (text, again) in [(half, TranscriptChange::Shorter), (&*other, TranscriptChange::Rewritten)]
    {
        let tail = read_new_lines(text, TranscriptProgram::ClaudeCode, Some(&all.place));
        assert_eq!(tail.place.again, Some(again));
        assert_eq!(message_texts(&tail).first(), message_texts(&all).first());
    }
}

#[test]
fn one_read_is_bounded_and_the_next_one_continues() {
    let line = |n: usize, text: &str| {
        format!(r#"{{"type":"assistant","uuid":"{n}","message":{{"content":"{text}"}}}}"#) + "\n"
    };
    let many: String = (0..1_200).map(|n| line(n, "word")).collect();
    let huge = line(1, &"x".repeat(2 * TAIL_BYTES)) + &line(2, "after");
    // A skipped line is reported.
    for (text, expected) in [(many, (1_200, 3)), (huge, (2, 2))] {
        let (mut place, mut count, mut readings) = (None, 0, 0);
        while place.as_ref().is_none_or(|place: &ReadOffset| place.bytes < text.len() as u64) {
            let tail = read_new_lines(&text, TranscriptProgram::ClaudeCode, place.as_ref());
            assert!(tail.events.len() <= EVENTS_MAX);
            count += tail.events.len();
            place = Some(tail.place);
            readings += 1;
        }
        assert_eq!((count, readings), expected);
    }
}
