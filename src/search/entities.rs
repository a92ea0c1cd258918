//! Things that a text names, as terms with a prefix: `file:` with the path from its end, so that
//! the last names of a path find it, `url:` with host and path, `kind:`. It must not look anything
//! up.

/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 200;

/// The term of a file: the names of its path from the last to the first.
pub(super) fn file(path: &str) -> String {
    let path = path.trim_start_matches("file://");
    let is_name = |name: &&str| !name.is_empty() && !matches!(*name, "." | ".." | "~");
    let names: Vec<&str> = path.split(['/', '\\']).filter(is_name).rev().collect();
    format!("file:{}", names.join("/").to_lowercase())
}

/// The term of an address: host and path, without what comes before and after.
pub(super) fn url(address: &str) -> String {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let address = address.trim_start_matches("www.").trim_end_matches('/');
    format!("url:{}", address.to_lowercase())
}

/// The term of the `kind` of a body.
pub(super) fn kind(name: &str) -> String {
    format!("kind:{}", name.to_lowercase())
}

/// Calls `visit` with every file and address of a text and the byte where it is.
pub(super) fn find(text: &str, mut visit: impl FnMut(usize, &str)) {
    let mut from = 0;
    let is_mark = |c: char| c.is_whitespace() || "\"'`()<>[]{},;|*=".contains(c);
    for chunk in text.split(is_mark) {
        let start = from;
        from += chunk.len();
        from += text.get(from..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        if chunk.len() < 3 || chunk.len() > NAME_BYTES_MAX || !chunk.contains(['/', '.']) {
            continue;
        }
        let name = chunk.trim_end_matches(['.', ':', '!', '?']);
        match name.split_once("://") {
            Some(("http" | "https", _)) => visit(start, &url(name)),
            Some(("file", path)) => visit(start, &file(path)),
            Some(_) => {}
            None => {
                // `src/a.rs:12:5` names a line.
                let path = name.split(':').next().unwrap_or_default();
                if is_path(path) {
                    visit(start, &file(path));
                }
            }
        }
    }
}

/// Whether it looks like a path: it begins like one, ends in a name with an ending, or has three
/// names.
fn is_path(path: &str) -> bool {
    let known = |c: char| c.is_alphanumeric() || "/._-+@~\\".contains(c);
    if !path.chars().all(known) || path.contains("//") {
        return false;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let has_ending = name.rsplit_once('.').is_some_and(|(stem, ending)| {
        stem.len() > 1
            && (1..=8).contains(&ending.len())
            && ending.starts_with(|c: char| c.is_ascii_lowercase())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && stem.contains(char::is_alphabetic)
    });
    let begins = ["/", "./", "../", "~/"].iter().any(|start| path.starts_with(start));
    let names = path.split('/').filter(|name| !name.is_empty()).count();
    has_ending || begins && names > 0 || names > 2
}
