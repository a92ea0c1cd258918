//! Tokens of texts, as the vendors of models count them.

use sessionlog::harness::{Counter as _, Tokenizer};

#[test]
fn a_tokenizer_matches_the_counts_its_vendor_published() {
    // Counts of the vendors' own tools.
    for (text, o200k) in [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 8),
    ] {
        assert_eq!(Tokenizer::O200k.count(text), o200k, "{text}");
        assert_eq!(Tokenizer::Claude.count(text), (o200k * 4).div_ceil(3), "{text}");
    }
}

#[test]
fn a_prefix_stays_within_its_token_budget_and_uses_most_of_it() {
    let text = "a few words, é, 👨‍👩‍👧, 12345 and {\"json\": [1, 2]}\n".repeat(200);
    for max in [0, 1, 2, 7, 100, 1_000, 100_000] {
        let cut = Tokenizer::O200k.prefix_within(&text, max);
        let count = Tokenizer::O200k.count(cut);
        assert!(count <= max && text.starts_with(cut), "{max}: {count}");
        assert!(cut.len() == text.len() || count + 6 >= max, "{max}: {count}");
    }
}

#[test]
fn a_tokenizer_name_round_trips() {
    for one in Tokenizer::ALL {
        assert_eq!(Tokenizer::parse(one.as_str()), Some(one));
    }
    assert_eq!(Tokenizer::parse("gpt"), None);
}
