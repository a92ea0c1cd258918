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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_counts_what_its_makers_published() {
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
    fn a_beginning_costs_no_more_than_it_may_and_wastes_little() {
        let text = "a few words, é, 👨‍👩‍👧, 12345 and {\"json\": [1, 2]}\n".repeat(200);
        for max in [0, 1, 2, 7, 100, 1_000, 100_000] {
            let cut = Tokenizer::O200k.beginning(&text, max);
            let count = Tokenizer::O200k.count(cut);
            assert!(count <= max && text.starts_with(cut), "{max}: {count}");
            assert!(cut.len() == text.len() || count + 6 >= max, "{max}: {count}");
        }
    }

    #[test]
    fn a_name_parses_back() {
        for one in Tokenizer::ALL {
            assert_eq!(Tokenizer::parse(one.as_str()), Some(one));
        }
        assert_eq!(Tokenizer::parse("gpt"), None);
    }
}
