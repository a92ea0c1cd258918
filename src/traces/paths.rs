//! Normalizes file paths, relative to the workspace where they are below it. It must not access a
//! file.

/// Normalizes a path: removes `.`, `..` and empty parts, and makes it relative to `workspace`, else
/// to `directory`, if it is below either. A relative path starts at `directory`, or else at the
/// workspace. Returns `None` if it is empty or climbs above its root.
#[must_use]
pub fn normalize_path(
    path: &str,
    workspace: Option<&str>,
    directory: Option<&str>,
) -> Option<String> {
    let roots = [workspace, directory].map(|root| root.filter(|root| root.starts_with('/')));
    let [workspace, directory] = roots.map(|root| root.and_then(|root| resolve_path(root, "")));
    let base = directory.as_deref().or(workspace.as_deref()).unwrap_or_default();
    let whole = resolve_path(path, base)?;
    let below = |root: Option<&str>| whole.strip_prefix(root?)?.strip_prefix('/');
    let below = below(workspace.as_deref()).or_else(|| below(directory.as_deref()));
    Some(below.map_or_else(|| whole.clone(), str::to_owned)).filter(|path| !path.is_empty())
}

/// Removes `.`, `..` and empty parts from a path; a relative one is appended to `base`.
pub(super) fn resolve_path(path: &str, base: &str) -> Option<String> {
    let is_rooted = path.starts_with('/') || base.starts_with('/');
    let base = if path.starts_with('/') { "" } else { base };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')).filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    let root = if is_rooted { "/" } else { "" };
    (!parts.is_empty()).then(|| format!("{root}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_below_the_workspace_have_the_same_relative_path() {
        let (bank, src) = (Some("/work/bank"), Some("/work/bank/src/"));
        for (path, workspace, directory, expected) in [
            ("src/./tax.py", bank, None, Some("src/tax.py")),
            ("/work/bank/src/tax.py", bank, None, Some("src/tax.py")),
            ("/work//bank/lib/../src/tax.py", bank, None, Some("src/tax.py")),
            ("tax.py", bank, src, Some("src/tax.py")),
            ("../tax.py", bank, src, Some("tax.py")),
            ("/work/bank/src/tax.py", None, src, Some("tax.py")),
            ("./tax.py", None, None, Some("tax.py")),
            ("tax.py", Some("bank"), None, Some("tax.py")),
            ("/work/banking/tax.py", bank, None, Some("/work/banking/tax.py")),
            ("/etc/hosts", bank, src, Some("/etc/hosts")),
            ("../other/tax.py", bank, None, Some("/work/other/tax.py")),
            ("a/../../tax.py", None, None, None),
            ("/work/bank", bank, None, Some("/work/bank")),
            ("./", None, None, None),
            ("", bank, None, Some("/work/bank")),
        ] {
            let found = normalize_path(path, workspace, directory);
            assert_eq!(found.as_deref(), expected, "{path} {workspace:?} {directory:?}");
        }
    }
}
