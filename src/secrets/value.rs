//! Classes of texts at the position of a secret: a word of prose, a placeholder, or random. It must
//! not know a rule, nor the name before the text.

/// Minimum characters of a text that can be classified as random.
const RANDOM_CHARS_MIN: usize = 12;
/// Minimum entropy of a random text, in bits per character; natural language has less.
const RANDOM_BITS_MIN: f64 = 3.0;

/// Returns true if the text is a word of prose, code or reports instead of a secret.
pub(super) fn is_prose(text: &str) -> bool {
    const WORDS: &str = "about after again also and any are argument before blob boolean but can cannot changed \
        char default denied disabled does enabled encrypted expired failed field file flag for \
        from has hash hashed have header here incorrect inherit input instead integer into \
        invalid is isn't manager masked matches may mismatch missing must name never not \
        number object only option parameter policy port prompt protected reset same set should \
        stdin stored strong that the then this through trim unknown unset updated user using \
        anders folgendermaßen identisch wieder unverändert \
        value varchar weak when where will with without wrong yes your";
    const METHODS: [&str; 9] =
        ["sha", "md5", "argon2", "base64", "bcrypt", "pbkdf2", "oauth2", "utf8", "utf-8"];
    let small = text.trim_end_matches([',', '.', ';', ':', ')']).to_ascii_lowercase();
    WORDS.split(' ').any(|word| word == small)
        || METHODS.iter().any(|method| small.starts_with(method))
}

/// Returns true if the text is a placeholder, refers to a variable, or is code that gets a secret.
pub(super) fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 22] = [
        "example",
        "changeme",
        "change-me",
        "change_me",
        "placeholder",
        "redacted",
        "dummy",
        "sample",
        "your-",
        "your_",
        "yourpass",
        "my-secret",
        "insert",
        "replace",
        "todo",
        "required",
        "optional",
        "environ",
        "getenv",
        "process.env",
        "undefined",
        "xxxx",
    ];
    const WHOLE: [&str; 18] = [
        "null", "none", "nil", "true", "false", "string", "str", "text", "password", "passwd",
        "secret", "token", "hidden", "empty", "bytes", "option", "str,", "string,",
    ];
    let text = text.trim_end_matches([';', ',']);
    let small = text.to_ascii_lowercase();
    let first = text.chars().next();
    let repeated = text.chars().all(|c| Some(c) == first);
    let path = || {
        let part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        text.contains('.') && text.split('.').all(part) && !is_random(text)
    };
    repeated
        || matches!(first, Some('$' | '{' | '<' | '%' | '(' | '[' | '&' | '*' | '`'))
        || text.contains("](")
        || text.contains("()")
        || text.contains("${")
        || text.contains("...")
        || text.contains('…')
        || text.contains("***")
        || WORDS.iter().any(|word| small.contains(word))
        || WHOLE.contains(&small.as_str())
        || path()
}

/// Returns true if the text is random: letters and digits, with high entropy.
pub(super) fn is_random(text: &str) -> bool {
    let count = text.chars().count();
    let digits = text.chars().any(|c| c.is_ascii_digit());
    let letters = text.chars().any(|c| c.is_ascii_alphabetic());
    count >= RANDOM_CHARS_MIN && digits && letters && entropy_bits(text) >= RANDOM_BITS_MIN
}

/// Returns the entropy of the text, in bits per character.
#[expect(clippy::cast_precision_loss, reason = "texts are shorter than that")]
fn entropy_bits(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let all = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(share).map(|p| -p * p.log2()).sum()
}
