//! Token counts by the tokenizer of a model family, which is loaded on first use. It must not
//! depend on messages: the window prices what surrounds a text.

use crate::event::pace;

/// Bytes of a text that are counted at once; `BYTES_OF_A_STEP` of them count as a step of work.
const PART_BYTES: usize = 16 << 10;
const BYTES_OF_A_STEP: usize = 32;
/// Most tokens that a cut within a word may add.
const CUT_TOKENS: usize = 2;

/// Counts the tokens of a text, never too few.
pub trait Counter {
    /// Returns the number of tokens of the text.
    fn count(&self, text: &str) -> usize;

    /// Returns a prefix of the text, as long as found, that costs at most `tokens_max`.
    fn prefix_within<'a>(&self, text: &'a str, tokens_max: usize) -> &'a str {
        // A token rarely covers more text than this; text beyond the limit is not counted.
        let mut text =
            text.get(..text.floor_char_boundary(tokens_max.saturating_mul(16))).unwrap_or_default();
        let mut fits = "";
        if self.count(text) <= tokens_max {
            return text;
        }
        while text.len() - fits.len() > 1 {
            let middle = text.floor_char_boundary(fits.len() + (text.len() - fits.len()) / 2);
            let Some(tried) = text.get(..middle).filter(|tried| tried.len() > fits.len()) else {
                break;
            };
            if self.count(tried) <= tokens_max {
                fits = tried;
            } else {
                text = tried;
            }
        }
        fits
    }
}

/// A tokenizer, or an upper bound for one that is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenizer {
    /// Tokenizer of OpenAI's models since 2024.
    O200k,
    /// Bound for models without a public tokenizer: four thirds of `o200k_base`'s count.
    Claude,
}

impl Tokenizer {
    /// All tokenizers.
    pub const ALL: [Self; 2] = [Self::O200k, Self::Claude];

    /// Returns the name of the tokenizer.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Claude => "claude",
        }
    }

    /// Returns the tokenizer with that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl Counter for Tokenizer {
    fn count(&self, text: &str) -> usize {
        match self {
            Self::O200k => {
                let (mut tokens, mut text) = (0, text);
                loop {
                    let (part, rest, over) = split_part(text);
                    pace::steps(1 + part.len() / BYTES_OF_A_STEP);
                    tokens += bpe_openai::o200k_base().count(part) + over;
                    if rest.is_empty() {
                        return tokens;
                    }
                    text = rest;
                }
            }
            Self::Claude => (Self::O200k.count(text) * 4).div_ceil(3),
        }
    }
}

/// Splits off the part of a text that is counted at once; returns it, the rest, and the most tokens
/// by which the cut may falsify the count. A cut at a blank between two words adds none.
fn split_part(text: &str) -> (&str, &str, usize) {
    if text.len() <= PART_BYTES {
        return (text, "", 0);
    }
    let end = text.ceil_char_boundary(PART_BYTES);
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let is_blank = |at: &usize| {
        matches!(bytes.get(*at), Some(b' ' | b'\n'))
            && is_word(bytes.get(at - 1))
            && is_word(bytes.get(at + 1))
    };
    let blank = (PART_BYTES / 2..end).rev().find(is_blank);
    let (part, rest) = text.split_at(blank.unwrap_or(end));
    (part, rest, if blank.is_some() { 0 } else { CUT_TOKENS })
}
