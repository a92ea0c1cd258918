//! The table of a tool's arguments: each is a member of the verb's place, query or body, under a
//! name of its own and described in a few words, or one that every tool has. It must not know a
//! verb.

use serde_json::{Map, Value, json};

use crate::wire::tools::{
    camel_name,
    names::{Changes, ToolNames},
};

/// An argument that a tool lists: a member of the verb's place, query or body.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    name: &'static str,
    about: &'static str,
    meaning: ArgumentMeaning,
    is_required: bool,
    is_point: bool,
    max: Option<usize>,
    one_of: &'static [&'static str],
}

/// Meaning of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentMeaning {
    /// The member that has the same name in snake_case.
    Member,
    /// The member of this name.
    Named(&'static str),
    /// The session of the call.
    Session,
    /// The workspace of the call.
    Workspace,
    /// The token of the lease.
    Fence,
}

impl Argument {
    /// The token of a lease, which every tool takes that writes.
    pub const FENCE: Self =
        Self::meaning("fencingToken", "Token of a lease.", ArgumentMeaning::Fence);

    const fn meaning(name: &'static str, about: &'static str, meaning: ArgumentMeaning) -> Self {
        Self { name, about, meaning, is_required: false, is_point: false, max: None, one_of: &[] }
    }

    /// Declares an argument for the member with that name in camelCase, optionally described.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self::meaning(name, about, ArgumentMeaning::Member)
    }

    /// Declares the session of the call.
    pub const fn session(about: &'static str) -> Self {
        Self::meaning("sessionId", about, ArgumentMeaning::Session)
    }

    /// Declares the workspace of the call.
    pub const fn workspace(name: &'static str, about: &'static str) -> Self {
        Self::meaning(name, about, ArgumentMeaning::Workspace)
    }

    /// Maps the argument to a member of another name.
    #[must_use]
    pub const fn for_member(self, member: &'static str) -> Self {
        Self { meaning: ArgumentMeaning::Named(member), ..self }
    }

    /// Makes the argument required.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Accepts a point, which may be sent as a number.
    #[must_use]
    pub const fn point(self) -> Self {
        Self { is_point: true, ..self }
    }

    /// Restricts the values to these words.
    #[must_use]
    pub const fn one_of(self, words: &'static [&'static str]) -> Self {
        Self { one_of: words, ..self }
    }

    /// Sets a lower maximum than the verb's.
    #[must_use]
    pub const fn at_most(self, max: usize) -> Self {
        Self { max: Some(max), ..self }
    }
}

/// Part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPart {
    Params,
    Query,
    Body,
}

/// The schemas of the parts of a request.
pub(super) type Parts = Vec<(RequestPart, Map<String, Value>)>;

/// The place that a call of a tool means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolPlace {
    /// None, or what the tool makes of its arguments.
    Nothing,
    /// That of the verb's path.
    OfPath,
    /// A session: the one that an argument names, else the bound one. The answer names it, and it
    /// is the bound one from then on.
    Session,
    /// A workspace: the one that an argument names, that of the bound session, that of the caller's
    /// directory.
    Workspace,
}

/// Arguments and answer of a tool, as they are declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolShape {
    /// The session or the workspace that a call means.
    pub(super) place: ToolPlace,
    /// True if its answer has recorded text, and says that this is data.
    pub(super) is_marked: bool,
    /// True if it takes the token of a lease.
    pub(super) has_fence: bool,
    /// Its arguments; none: every member of the verb.
    pub(super) arguments: &'static [Argument],
    /// Members whose names are not those of the verb in camelCase.
    pub(super) changes: Changes,
    pub(super) parts: fn() -> Parts,
    pub(super) answer: fn() -> Map<String, Value>,
}

impl ToolShape {
    /// Returns the target of a call, and the accepted arguments.
    pub(super) fn taken(&self) -> (ToolPlace, Vec<TakenArgument>) {
        let mut parts = (self.parts)();
        let place = match self.place {
            ToolPlace::OfPath => place_of(&mut parts),
            place => place,
        };
        if !self.arguments.is_empty() {
            let of = |one: &Argument| TakenArgument::from_table(one, &parts, self.changes);
            return (place, self.arguments.iter().map(of).collect());
        }
        let mut all = Vec::new();
        if place == ToolPlace::Session {
            all.push(TakenArgument::of_call(&Argument::session("Left out: the bound session.")));
        }
        for part in &parts {
            let members = members(&part.1).map(|name| (in_tool(name), name));
            all.extend(
                members.map(|(name, member)| TakenArgument::new(name, member, part, self.changes)),
            );
        }
        let is_fence = |one: &TakenArgument| one.name == Argument::FENCE.name;
        if self.has_fence && !all.iter().any(is_fence) {
            all.push(TakenArgument::of_call(&Argument::FENCE));
        }
        (place, all)
    }
}

/// An argument that is taken, and where it goes.
#[derive(Debug)]
pub(super) struct TakenArgument {
    pub(super) name: String,
    pub(super) member: String,
    pub(super) to: To,
    pub(super) names: ToolNames,
    pub(super) schema: Value,
    pub(super) is_required: bool,
    pub(super) is_point: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    RequestPart(RequestPart),
    Session,
    Workspace,
    Fence,
}

impl TakenArgument {
    /// Creates the argument of a part's member.
    fn new(
        name: String,
        member: &str,
        (part, of): &(RequestPart, Map<String, Value>),
        all: Changes,
    ) -> Self {
        let schema = of.get("properties").and_then(|all| all.get(member));
        let mut schema = schema.cloned().unwrap_or_default();
        let names = ToolNames::from_schema(&mut schema, member, all);
        let required = of.get("required").and_then(Value::as_array);
        let is_required = required.is_some_and(|all| all.iter().any(|one| *one == *member));
        let (member, to) = (member.to_owned(), To::RequestPart(*part));
        Self { name, member, to, names, schema, is_required, is_point: false }
    }

    /// Creates an argument that is not a member of the request.
    fn of_call(one: &Argument) -> Self {
        let text = || json!({ "type": "string" });
        let (to, mut schema) = match one.meaning {
            ArgumentMeaning::Fence => (To::Fence, json!({ "type": "integer", "minimum": 0 })),
            ArgumentMeaning::Workspace => (To::Workspace, text()),
            _ => (To::Session, text()),
        };
        describe(&mut schema, one);
        let (name, member) = (one.name.to_owned(), one.name.to_owned());
        let (names, is_required) = (ToolNames::default(), one.is_required);
        Self { name, member, to, names, schema, is_required, is_point: false }
    }

    /// Creates a listed argument.
    fn from_table(one: &Argument, parts: &Parts, changes: Changes) -> Self {
        let is_it = |member: &&String| match one.meaning {
            ArgumentMeaning::Named(name) => *member == name,
            _ => in_tool(member) == one.name || *member == one.name,
        };
        if !matches!(one.meaning, ArgumentMeaning::Member | ArgumentMeaning::Named(_)) {
            return Self::of_call(one);
        }
        let found = parts.iter().find_map(|of| Some((members(&of.1).find(is_it)?, of)));
        let (member, part) = found.expect("an argument of a table is a member of its verb");
        let mut made = Self::new(one.name.to_owned(), member, part, changes);
        (made.is_required, made.is_point) = (made.is_required || one.is_required, one.is_point);
        describe(&mut made.schema, one);
        made
    }

    /// Returns true if the name refers to this argument. Names in snake_case are also accepted in
    /// camelCase, and a workspace under both of its names.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let is_workspace = self.to == To::Workspace && ["workspace", "workspaceId"].contains(&name);
        is_workspace || self.name == name || camel_name(&self.name) == name
    }
}

/// Removes the session or the workspace from the path's schema and returns the target.
fn place_of(parts: &mut Parts) -> ToolPlace {
    for (part, schema) in parts {
        let Some(Value::Object(all)) = schema.get_mut("properties") else { continue };
        if *part == RequestPart::Params && all.shift_remove("session").is_some() {
            return ToolPlace::Session;
        }
        if *part == RequestPart::Params && all.shift_remove("workspace").is_some() {
            return ToolPlace::Workspace;
        }
    }
    ToolPlace::Nothing
}

/// Adds a table entry's description and limits to a schema.
fn describe(schema: &mut Value, one: &Argument) {
    let Value::Object(schema) = schema else { return };
    if !one.one_of.is_empty() {
        schema.shift_remove("description");
        schema.insert("enum".to_owned(), one.one_of.into());
    }
    if one.about.is_empty() {
        schema.shift_remove("description");
    } else {
        schema.insert("description".to_owned(), one.about.into());
    }
    if let Some(max) = one.max {
        schema.insert("maximum".to_owned(), max.into());
    }
    if one.is_point && schema.shift_remove("type").is_some() {
        schema.shift_insert(0, "anyOf".to_owned(), point_forms());
    }
}

/// Returns the forms of a point: a text or a number.
fn point_forms() -> Value {
    json!([{ "type": "string" }, { "type": "integer" }])
}

/// Reduces the schema of a point to the text form, the only one that is listed.
pub(super) fn list_point_as_text(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if schema.get("anyOf") == Some(&point_forms()) {
        schema.shift_remove("anyOf");
        schema.shift_insert(0, "type".to_owned(), "string".into());
    }
}

/// Returns the names of a schema's members.
fn members(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys)
}

/// Returns the name of a verb's member in its tool.
fn in_tool(member: &str) -> String {
    camel_name(member.trim_end_matches("[]"))
}
