//! Adds and removes a server's entry in a TOML text; every other byte stays. It must not depend on
//! the program that reads the file.

use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::PlanError;

const SERVERS: &str = "mcp_servers";

fn parse_document(text: &str) -> Result<DocumentMut, PlanError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let first = error.message().lines().next().unwrap_or_default().to_owned();
        let line = error
            .span()
            .map_or(0, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        PlanError::Broken(format!("it is no TOML: line {line}: {first}"))
    })
}

/// Edits a text with LF line endings and without its byte order mark, and restores both.
fn edit_plain(
    text: &str,
    edit: impl FnOnce(&str) -> Result<String, PlanError>,
) -> Result<String, PlanError> {
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mark = text.get(..text.len() - rest.len()).unwrap_or_default();
    let foreign = rest.contains('\n') && rest.matches('\n').count() == rest.matches("\r\n").count();
    let made = match foreign {
        true => edit(&rest.replace("\r\n", "\n"))?.replace('\n', "\r\n"),
        false => edit(rest)?,
    };
    Ok(format!("{mark}{made}"))
}

pub(super) fn server_program(text: &str, name: &str) -> Option<String> {
    let document = parse_document(text.strip_prefix('\u{feff}').unwrap_or(text)).ok()?;
    let command = document.get(SERVERS)?.get(name)?.get("command")?;
    command.as_str().map(str::to_owned)
}

/// Returns the text with the named server.
pub(super) fn set_server(
    text: &str,
    name: &str,
    program: &str,
    arguments: &[String],
) -> Result<String, PlanError> {
    edit_plain(text, |text| insert_server(text, name, program, arguments))
}

fn insert_server(
    text: &str,
    name: &str,
    program: &str,
    arguments: &[String],
) -> Result<String, PlanError> {
    let mut document = parse_document(text)?;
    let mut server = Table::new();
    server.insert("command", value(program));
    server.insert("args", value(arguments.iter().collect::<Array>()));
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers =
        servers.as_table_like_mut().ok_or(PlanError::Other(SERVERS.to_owned(), "a table"))?;
    let same = |found: &Item| {
        let member = |name: &str| found.get(name).map(|item| item.to_string().trim().to_owned());
        let wanted = |name: &str| server.get(name).map(|item| item.to_string().trim().to_owned());
        ["command", "args"].iter().all(|name| member(name) == wanted(name))
    };
    match servers.get_mut(name) {
        Some(found) if same(found) => return Ok(text.to_owned()),
        // Members that the user added stay.
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

/// Returns the text without the named server.
pub(super) fn remove_server(text: &str, name: &str) -> Result<String, PlanError> {
    edit_plain(text, |text| without_server(text, name))
}

fn without_server(text: &str, name: &str) -> Result<String, PlanError> {
    let mut document = parse_document(text)?;
    let Some(servers) = document.get_mut(SERVERS).and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    let Some(gone) = servers.remove(name) else { return Ok(text.to_owned()) };
    if servers.is_empty() {
        document.remove(SERVERS);
    }
    // A comment above the entry is the user's.
    let above = gone.as_table().and_then(|table| table.decor().prefix()?.as_str());
    if let Some(above) = above.filter(|above| above.contains('#')) {
        let behind = document.trailing().as_str().unwrap_or_default();
        document.set_trailing(format!("{above}{behind}"));
    }
    Ok(document.to_string())
}
