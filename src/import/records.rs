//! Splits a line into its records. Concurrent writers may write two records into one line, or a
//! record after one that was cut off. It must not interpret records.

use serde::de::IgnoredAny;
use serde_json::{Deserializer, value::RawValue};

use super::{JsonMembers, transcript::TranscriptProgram};

/// Maximum offsets of a line at which a whole record is tried, and maximum bytes that are parsed
/// for that, as a multiple of the line's length.
const TRIES_MAX: usize = 10_000;
const LENGTHS_MAX: usize = 8;

/// First part of a line.
pub(super) enum NextRecord {
    /// A whole record, and its length in bytes.
    Record(Box<RawValue>, usize),
    /// Problem and length of bytes that are no record, up to the next record or the line's end.
    Bad(String, usize),
    /// An incomplete record at the end of the line.
    Cut,
}

/// Parses the first record of a line, which must start with a non-blank byte.
pub(super) fn next_record(line: &[u8]) -> NextRecord {
    let mut values = Deserializer::from_slice(line).into_iter::<Box<RawValue>>();
    let error = match values.next() {
        Some(Ok(value)) if value.get().starts_with(['{', '[']) => {
            return NextRecord::Record(value, values.byte_offset());
        }
        Some(Err(error)) => error,
        _ => return NextRecord::Bad("it is neither an object nor an array".to_owned(), line.len()),
    };
    match find_whole_record(line) {
        Some(at) => NextRecord::Bad(format!("its first {at} bytes are no record: {error}"), at),
        None if error.is_eof() => NextRecord::Cut,
        None => NextRecord::Bad(format!("it is not JSON: {error}"), line.len()),
    }
}

/// Returns the byte offset of the first whole record after invalid bytes. An object within the cut
/// record is not one: neither a record nor the end of the line follows it.
fn find_whole_record(line: &[u8]) -> Option<usize> {
    let (mut at, mut read) = (1, 0);
    for _ in 0..TRIES_MAX {
        let rest = line.get(at..)?;
        let found = rest.windows(2).position(|two| two == b"{\"")?;
        at += found;
        let rest = line.get(at..)?;
        let mut values = Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                let end = values.byte_offset();
                let follows = rest.get(end..).unwrap_or_default().trim_ascii_start();
                let record = rest.get(..end).and_then(|record| str::from_utf8(record).ok());
                let is_record = || {
                    let members = record.and_then(|record| JsonMembers::read(record).ok());
                    members.is_some_and(|members| TranscriptProgram::from_line(&members).is_some())
                };
                if (follows.is_empty() || follows.starts_with(b"{")) && is_record() {
                    return Some(at);
                }
                read += end;
            }
            Some(Err(error)) => read += error.column(),
            None => return None,
        }
        if read > LENGTHS_MAX * line.len() {
            return None;
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_record_returns_each_whole_record_even_after_a_cut_one() {
        let one = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"{\"x\""}}"#;
        let two = r#"{"type":"mode","sessionId":"s","n":123456789012345678901234567890}"#;
        let cut = &one[..one.len() - 1];
        let inner = r#"{"type":"user","message":{"type":"text","text":"i"}"#;
        for (line, expected) in [
            (format!("{one}{two}"), format!("record {}", one.len())),
            (format!("{one} \t{two}"), format!("record {}", one.len())),
            (format!("{cut}{two}"), format!("bad {}", cut.len())),
            (format!("{}{two}", &one[..40]), "bad 40".to_owned()),
            (format!("ssage\":1}}{two}{one}"), "bad 9".to_owned()),
            // A nested object of the cut record is not a record.
            (inner.to_owned(), "cut".to_owned()),
            ("[1,2]3".to_owned(), "record 5".to_owned()),
            ("12 monkeys".to_owned(), "bad 10".to_owned()),
            ("nonsense".to_owned(), "bad 8".to_owned()),
        ] {
            let found = match next_record(line.as_bytes()) {
                NextRecord::Record(_, bytes) => format!("record {bytes}"),
                NextRecord::Bad(_, bytes) => format!("bad {bytes}"),
                NextRecord::Cut => "cut".to_owned(),
            };
            assert_eq!(found, expected, "{line}");
        }
    }
}
