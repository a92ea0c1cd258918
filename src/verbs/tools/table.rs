//! The table of a tool's arguments: each is a member of the verb's path, query or body, under its
//! own name and with a short description, or one that every tool has. It must not know a verb.

use serde_json::{Map, Value, json};

use crate::wire::tools::{
    names::{Changes, ToolNames},
    to_camel_case,
};

/// An argument that a tool lists: a member of the verb's path, query or body.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentMeaning {
    /// The member that has the same name in snake_case.
    Member,
    /// The member with this name.
    Named(&'static str),
    /// The session of the call.
    Session,
    /// The workspace of the call.
    Workspace,
    /// The fencing token of a lease.
    Fence,
}

impl Argument {
    /// Fencing token of a lease, which every writing tool takes.
    pub const FENCE: Self =
        Self::with_meaning("fencingToken", "Token of a lease.", ArgumentMeaning::Fence);

    const fn with_meaning(
        name: &'static str,
        about: &'static str,
        meaning: ArgumentMeaning,
    ) -> Self {
        Self { name, about, meaning, is_required: false, is_point: false, max: None, one_of: &[] }
    }

    /// Declares an argument for the member with that name in camelCase, optionally described.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self::with_meaning(name, about, ArgumentMeaning::Member)
    }

    /// Declares the session of the call.
    pub const fn session(about: &'static str) -> Self {
        Self::with_meaning("sessionId", about, ArgumentMeaning::Session)
    }

    /// Declares the workspace of the call.
    pub const fn workspace(name: &'static str, about: &'static str) -> Self {
        Self::with_meaning(name, about, ArgumentMeaning::Workspace)
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
    pub const fn as_point(self) -> Self {
        Self { is_point: true, ..self }
    }

    /// Restricts the values to these words.
    #[must_use]
    pub const fn with_values(self, words: &'static [&'static str]) -> Self {
        Self { one_of: words, ..self }
    }

    /// Sets a lower maximum than the verb's.
    #[must_use]
    pub const fn with_max(self, max: usize) -> Self {
        Self { max: Some(max), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPart {
    Params,
    Query,
    Body,
}

pub(super) type PartSchemas = Vec<(RequestPart, Map<String, Value>)>;

/// Session or workspace that a call works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolTarget {
    /// Neither, or what the tool derives from its arguments.
    Nothing,
    /// The one in the verb's path.
    FromPath,
    /// A session: the one that an argument names, else the bound one. The answer names it, and it
    /// is bound afterwards.
    Session,
    /// A workspace: the one that an argument names, that of the bound session, or that of the
    /// caller's directory.
    Workspace,
}

/// Arguments and answer of a tool, as they are declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolShape {
    /// Session or workspace that a call works on.
    pub(super) target: ToolTarget,
    /// True if its answer contains recorded text, which it marks as data.
    pub(super) is_marked: bool,
    /// True if it takes the fencing token of a lease.
    pub(super) has_fence: bool,
    /// Arguments of the tool. If empty, every member of the verb is an argument.
    pub(super) arguments: &'static [Argument],
    /// Members whose names are not those of the verb in camelCase.
    pub(super) changes: Changes,
    pub(super) parts: fn() -> PartSchemas,
    pub(super) answer: fn() -> Map<String, Value>,
}

impl ToolShape {
    /// Returns the target of a call, and the accepted arguments.
    pub(super) fn accepted_arguments(&self) -> (ToolTarget, Vec<AcceptedArgument>) {
        let mut parts = (self.parts)();
        let target = match self.target {
            ToolTarget::FromPath => extract_target(&mut parts),
            target => target,
        };
        if !self.arguments.is_empty() {
            let of = |one: &Argument| AcceptedArgument::from_table(one, &parts, self.changes);
            return (target, self.arguments.iter().map(of).collect());
        }
        let mut all = Vec::new();
        if target == ToolTarget::Session {
            all.push(AcceptedArgument::from_call(&Argument::session(
                "Left out: the bound session.",
            )));
        }
        for part in &parts {
            let members = member_names(&part.1).map(|name| (to_tool_name(name), name));
            all.extend(
                members
                    .map(|(name, member)| AcceptedArgument::new(name, member, part, self.changes)),
            );
        }
        let is_fence = |one: &AcceptedArgument| one.name == Argument::FENCE.name;
        if self.has_fence && !all.iter().any(is_fence) {
            all.push(AcceptedArgument::from_call(&Argument::FENCE));
        }
        (target, all)
    }
}

/// An accepted argument, and its target in the call.
#[derive(Debug)]
pub(super) struct AcceptedArgument {
    pub(super) name: String,
    pub(super) member: String,
    pub(super) to: ArgumentTarget,
    pub(super) names: ToolNames,
    pub(super) schema: Value,
    pub(super) is_required: bool,
    pub(super) is_point: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentTarget {
    RequestPart(RequestPart),
    Session,
    Workspace,
    Fence,
}

impl AcceptedArgument {
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
        let (member, to) = (member.to_owned(), ArgumentTarget::RequestPart(*part));
        Self { name, member, to, names, schema, is_required, is_point: false }
    }

    /// Creates an argument that is not a member of the request.
    fn from_call(one: &Argument) -> Self {
        let text = || json!({ "type": "string" });
        let (to, mut schema) = match one.meaning {
            ArgumentMeaning::Fence => {
                (ArgumentTarget::Fence, json!({ "type": "integer", "minimum": 0 }))
            }
            ArgumentMeaning::Workspace => (ArgumentTarget::Workspace, text()),
            _ => (ArgumentTarget::Session, text()),
        };
        describe(&mut schema, one);
        let (name, member) = (one.name.to_owned(), one.name.to_owned());
        let (names, is_required) = (ToolNames::default(), one.is_required);
        Self { name, member, to, names, schema, is_required, is_point: false }
    }

    /// Creates a listed argument.
    fn from_table(one: &Argument, parts: &PartSchemas, changes: Changes) -> Self {
        let is_it = |member: &&String| match one.meaning {
            ArgumentMeaning::Named(name) => *member == name,
            _ => to_tool_name(member) == one.name || *member == one.name,
        };
        if !matches!(one.meaning, ArgumentMeaning::Member | ArgumentMeaning::Named(_)) {
            return Self::from_call(one);
        }
        let found = parts.iter().find_map(|of| Some((member_names(&of.1).find(is_it)?, of)));
        let (member, part) = found.expect("an argument of a table is a member of its verb");
        let mut made = Self::new(one.name.to_owned(), member, part, changes);
        (made.is_required, made.is_point) = (made.is_required || one.is_required, one.is_point);
        describe(&mut made.schema, one);
        made
    }

    /// Returns true if the name refers to this argument. Names in snake_case are also accepted in
    /// camelCase, and a workspace under both of its names.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let is_workspace =
            self.to == ArgumentTarget::Workspace && ["workspace", "workspaceId"].contains(&name);
        is_workspace || self.name == name || to_camel_case(&self.name) == name
    }
}

/// Removes the session or the workspace from the path's schema and returns the target.
fn extract_target(parts: &mut PartSchemas) -> ToolTarget {
    for (part, schema) in parts {
        let Some(Value::Object(all)) = schema.get_mut("properties") else { continue };
        if *part == RequestPart::Params && all.shift_remove("session").is_some() {
            return ToolTarget::Session;
        }
        if *part == RequestPart::Params && all.shift_remove("workspace").is_some() {
            return ToolTarget::Workspace;
        }
    }
    ToolTarget::Nothing
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
fn member_names(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys)
}

/// Returns the name of a verb's member in its tool.
fn to_tool_name(member: &str) -> String {
    to_camel_case(member.trim_end_matches("[]"))
}
