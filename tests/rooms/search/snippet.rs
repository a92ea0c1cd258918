//! The shown part of a passage.

use unicode_segmentation::UnicodeSegmentation as _;

use sessionlog::{
    event::text::ELLIPSIS,
    search::{PassageSnippet, Query, extract_snippet},
};

fn snippet_of(query: &str, text: &str, bytes_max: usize) -> PassageSnippet {
    extract_snippet(&Query::parse(query).unwrap(), text, bytes_max)
}

#[test]
fn a_sentence_that_fits_is_shown_unchanged_with_its_matches() {
    let text = "The Retry loop calls `flush_ledger_v2()`, loops again.";
    let found = snippet_of("retries flush ledger loop", text, 400);
    assert_eq!(found.text, text);
    assert_eq!(found.matched, ["Retry", "loop", "flush", "ledger", "loops"]);
    let marked: Vec<&str> = found.marks.iter().map(|mark| &found.text[mark.clone()]).collect();
    assert_eq!(marked, found.matched);
    let found = snippet_of("flushledgerv2", text, 400);
    assert_eq!(found.matched, ["flush_ledger_v2"]);
}

#[test]
fn a_long_text_is_shown_at_its_part_with_the_most_matches() {
    let filler = "nothing of any use here ".repeat(20);
    let text = format!("loop {filler}the retry loop takes 512 ms {filler}loop");
    let found = snippet_of("retry loop", &text, 80);
    assert!(found.text.contains("retry loop takes 512 ms"), "{found:?}");
    assert!(found.text.starts_with('…') && found.text.ends_with('…'));
    assert!(found.text.len() <= 80 + 2 * ELLIPSIS.len_utf8());
    assert_eq!(found.matched, ["retry", "loop"]);
    let marked: Vec<&str> = found.marks.iter().map(|mark| &found.text[mark.clone()]).collect();
    assert_eq!(marked, ["retry", "loop"], "{found:?}");
}

#[test]
fn a_snippet_is_never_cut_within_a_grapheme() {
    let family = "👨‍👩‍👧";
    for space in [" ", ""] {
        let families = format!("{0}e\u{301}{0}", family.repeat(3));
        let text = format!("{families}{space}word{space}{families}");
        let whole: Vec<&str> = text.graphemes(true).collect();
        for bytes_max in 0..text.len() + 3 {
            let found = snippet_of("word", &text, bytes_max).text;
            for part in found.trim_matches(ELLIPSIS).graphemes(true) {
                assert!(whole.contains(&part), "{part:?} at {bytes_max}");
            }
        }
    }
}
