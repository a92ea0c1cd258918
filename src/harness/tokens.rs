//! Token counts of texts, by the tokenizer of a model's family. A tokenizer is loaded at its first
//! use. It must not depend on messages: what surrounds a text is priced by the window.

/// Counts the tokens of a text, and never too few.
pub trait Counter {
    /// Tokens of the text.
    fn count(&self, text: &str) -> usize;

    /// The longest beginning of the text that was found to cost at most `tokens_max`.
    fn beginning<'a>(&self, text: &'a str, tokens_max: usize) -> &'a str {
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
    /// Of the models of OpenAI, since 2024.
    O200k,
    /// For models without a public tokenizer: what `o200k_base` counts, and a third more.
    Claude,
}

impl Tokenizer {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::O200k, Self::Claude];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Claude => "claude",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl Counter for Tokenizer {
    fn count(&self, text: &str) -> usize {
        match self {
            Self::O200k => bpe_openai::o200k_base().count(text),
            Self::Claude => (Self::O200k.count(text) * 4).div_ceil(3),
        }
    }
}
