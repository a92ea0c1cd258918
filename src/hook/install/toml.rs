//! A TOML text that names a server or does not; all else stays to the byte. It must not know who
//! reads it.

use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::PlanError;

const SERVERS: &str = "mcp_servers";

fn read(text: &str) -> Result<DocumentMut, PlanError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let first = error.message().lines().next().unwrap_or_default().to_owned();
        let line = error
            .span()
            .map_or(0, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        PlanError::Broken(format!("it is no TOML: line {line}: {first}"))
    })
}

/// The text with a server of that name.
pub(super) fn with(
    text: &str,
    name: &str,
    program: &str,
    arguments: &[String],
) -> Result<String, PlanError> {
    let mut document = read(text)?;
    let mut server = Table::new();
    server.insert("command", value(program));
    server.insert("args", value(arguments.iter().collect::<Array>()));
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or(PlanError::Other(SERVERS, "a table"))?;
    let same = |found: &Item| {
        let member = |name: &str| found.get(name).map(|item| item.to_string().trim().to_owned());
        let wanted = |name: &str| server.get(name).map(|item| item.to_string().trim().to_owned());
        ["command", "args"].iter().all(|name| member(name) == wanted(name))
    };
    match servers.get_mut(name) {
        Some(found) if same(found) => return Ok(text.to_owned()),
        // What somebody set beside it stays.
        Some(found) if found.is_table_like() => {
            if let Some(found) = found.as_table_like_mut() {
                found.insert("command", value(program));
                found.insert("args", value(arguments.iter().collect::<Array>()));
            }
        }
        _ => {
            servers.insert(name, Item::Table(server));
        }
    }
    Ok(document.to_string())
}

/// The text without it.
pub(super) fn without(text: &str, name: &str) -> Result<String, PlanError> {
    let mut document = read(text)?;
    let Some(servers) = document.get_mut(SERVERS).and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    if servers.remove(name).is_none() {
        return Ok(text.to_owned());
    }
    if servers.is_empty() {
        document.remove(SERVERS);
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_once_and_taken_out_again_to_the_byte() {
        let words = ["--data-dir".to_owned(), "/a b".to_owned(), "mcp".to_owned()];
        for text in [
            "",
            "# mine\nmodel = \"x\" # why\n\n[mcp_servers.other]\ncommand = 'y'\n",
            "[profiles.a]\nmodel='m'\n\n\n[tui]\nnotifications = true\n",
            "a = 1",
        ] {
            let made = with(text, "sessionlog", "/opt/sessionlog", &words).expect("TOML");
            assert!(made.starts_with(text.trim_end()), "{made}");
            assert!(made.contains("[mcp_servers.sessionlog]\n"), "{made}");
            assert_eq!(with(&made, "sessionlog", "/opt/sessionlog", &words).as_deref(), Ok(&*made));
            let back = without(&made, "sessionlog").expect("TOML");
            assert_eq!(back.trim_end(), text.trim_end());
            assert_eq!(without(&back, "sessionlog").as_deref(), Ok(&*back));
        }
        let moved = with(
            "[mcp_servers.sessionlog]\ncommand = \"old\"\nenv = { A = \"1\" }\n",
            "sessionlog",
            "new",
            &words,
        )
        .expect("TOML");
        assert!(moved.contains("command = \"new\"") && moved.contains("A = \"1\""), "{moved}");
        assert!(with("mcp_servers = 7", "s", "p", &words).is_err());
        assert!(with("[a\n", "s", "p", &words).is_err());
    }
}
