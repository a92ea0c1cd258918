//! A tool as it is declared: its name, its description, and the verb or the request that it is. It
//! must not carry anything out.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    OF_AGENT, ToolCall, Toolset,
    derived::{self, ServeTool},
    prepared::Prepared,
    table::{Argument, RequestPart, ToolPlace, ToolShape},
    tools,
};
use crate::{
    access::Grant,
    service::ServiceResult,
    verbs::{Need, Serve},
    wire::{
        schema,
        tools::names::{AS_IS, Changes},
    },
};

/// A tool, as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// A name for people.
    pub title: &'static str,
    /// Its effect, and when to call it.
    pub about: &'static str,
    /// The group it belongs to.
    pub toolset: Toolset,
    /// Grants that its caller needs. A tool that needs no more than reading changes nothing.
    pub need: Need,
    /// True if the same call again changes nothing more.
    pub repeatable: bool,
    /// True if its arguments carry an event or a state of the caller's, which may be large.
    pub carries: bool,
    /// True if the key of a call stands for it without a digest of its arguments: the verb makes
    /// one, or they are stored as events and compared. What is redacted of events must not be known
    /// by a digest.
    pub plain_key: bool,
    /// The part of it that a front end does, where the files are.
    pub at_front: AtFront,
    declared: ToolShape,
    carry_out: ServeFn,
}

/// Carries out a call with these arguments and returns the answer as JSON text.
type ServeFn =
    for<'a> fn(Arc<Prepared>, ToolCall<'a>, String) -> BoxFuture<'a, ServiceResult<String>>;

/// The part of a call that a front end does, because the files are where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtFront {
    /// None.
    Nothing,
    /// It adds hashes of files to a save, and what extractors found to its answer.
    Save,
    /// It looks at the files of a restore.
    Restore,
}

impl Tool {
    const fn new(
        (name, title, about): (&'static str, &'static str, &'static str),
        toolset: Toolset,
        need: Need,
        declared: ToolShape,
        carry_out: ServeFn,
    ) -> Self {
        Self {
            name,
            title,
            about,
            toolset,
            need,
            repeatable: matches!(need, Need::Grant(Grant::Read)),
            carries: false,
            plain_key: false,
            at_front: AtFront::Nothing,
            declared,
            carry_out,
        }
    }

    /// Declares a tool with dedicated arguments and response.
    pub(crate) const fn own<T: ServeTool>(
        name: &'static str,
        title: &'static str,
        about: &'static str,
        toolset: Toolset,
        need: Need,
    ) -> Self {
        let declared = ToolShape {
            place: ToolPlace::Nothing,
            is_marked: false,
            has_fence: false,
            arguments: &[],
            changes: AS_IS,
            parts: derived::asked::<T>,
            answer: schema::output::<T::Answer>,
        };
        Self::new((name, title, about), toolset, need, declared, derived::serve_asked::<T>)
    }

    /// Declares a tool of a request: its arguments are members of it, its response is the verb's.
    pub(crate) const fn asking<T: ServeTool>(
        name: &'static str,
        title: &'static str,
        toolset: Toolset,
        need: Need,
        arguments: &'static [Argument],
    ) -> Self {
        let tool = Self::own::<T>(name, title, "", toolset, need);
        let declared = ToolShape { is_marked: true, arguments, changes: &[], ..tool.declared };
        Self { declared, ..tool }
    }

    /// Declares a tool of a verb: its arguments are the verb's parameters, its response the verb's.
    pub const fn of<V: Serve>(name: &'static str, title: &'static str, toolset: Toolset) -> Self {
        let need = V::ROUTE.need;
        let declared = ToolShape {
            place: ToolPlace::OfPath,
            is_marked: true,
            has_fence: !matches!(need, Need::Grant(Grant::Read)),
            arguments: &[],
            changes: &[],
            parts: derived::parts::<V>,
            answer: schema::output::<V::Answer>,
        };
        Self::new((name, title, V::ABOUT), toolset, need, declared, derived::serve::<V>)
    }

    /// Sets a description for models.
    #[must_use]
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Restricts the tool to these arguments.
    #[must_use]
    pub const fn takes(self, arguments: &'static [Argument]) -> Self {
        Self { declared: ToolShape { arguments, ..self.declared }, ..self }
    }

    /// Sets other names for some members.
    #[must_use]
    pub(crate) const fn naming(self, changes: Changes) -> Self {
        Self { declared: ToolShape { changes, ..self.declared }, ..self }
    }

    /// Adds a session argument; the default is the bound session.
    #[must_use]
    pub const fn in_session(self) -> Self {
        Self { declared: ToolShape { place: ToolPlace::Session, ..self.declared }, ..self }
    }

    /// Adds a workspace argument.
    #[must_use]
    pub const fn in_workspace(self) -> Self {
        Self { declared: ToolShape { place: ToolPlace::Workspace, ..self.declared }, ..self }
    }

    /// Marks the tool as idempotent.
    #[must_use]
    pub const fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    /// Marks the tool's arguments as carrying an event or a state.
    #[must_use]
    pub const fn carrying(self) -> Self {
        Self { carries: true, ..self }
    }

    /// Omits the digest of the arguments from the tool's key.
    #[must_use]
    pub const fn with_plain_key(self) -> Self {
        Self { plain_key: true, ..self }
    }

    /// Sets the part of a call that a front end performs.
    #[must_use]
    pub const fn with_front(self, at_front: AtFront) -> Self {
        Self { at_front, ..self }
    }

    /// Marks the tool's response as free of recorded text.
    #[must_use]
    pub const fn unmarked(self) -> Self {
        Self { declared: ToolShape { is_marked: false, ..self.declared }, ..self }
    }

    /// Returns the tool's schemas and names, cached for a listed tool.
    fn prepared(&self) -> Arc<Prepared> {
        static ALL: LazyLock<HashMap<&str, Arc<Prepared>>> = LazyLock::new(|| {
            let prepared = |tool: &Tool| (tool.name, Arc::new(Prepared::new(&tool.declared)));
            tools().iter().map(prepared).collect()
        });
        ALL.get(self.name).map_or_else(|| Arc::new(Prepared::new(&self.declared)), Arc::clone)
    }

    /// Returns true if the tool changes nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.need == Need::READ
    }

    /// Returns the grants that the caller needs: those of the verb, and reading, because the
    /// response contains recorded data.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        let beyond = self.need.grants().iter().filter(|grant| **grant != Grant::Read);
        std::iter::once(Grant::Read).chain(beyond.copied()).collect()
    }

    /// Returns the JSON schema of the arguments.
    #[must_use]
    pub fn input_schema(&self) -> Map<String, Value> {
        schema::brief(self.prepared().listed_input())
    }

    /// Returns the arguments listed for an installed agent; `None` if it is not offered this tool.
    pub(super) fn listed_for_agent(&self) -> Option<&'static [&'static str]> {
        OF_AGENT.iter().find(|(name, _)| *name == self.name).map(|(_, listed)| *listed)
    }

    /// Returns the JSON schema of the arguments for a client with these toolsets.
    #[must_use]
    pub fn schema_for(&self, toolsets: &[Toolset]) -> Map<String, Value> {
        let mut schema = self.input_schema();
        let listed = self.listed_for_agent().filter(|_| *toolsets == [Toolset::Agent]);
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let Some((listed, properties)) = listed.zip(properties) {
            properties.retain(|name, _| listed.contains(&name.as_str()));
        }
        schema
    }

    /// Executes a call with these arguments and returns the response as JSON text.
    #[must_use]
    pub fn serve<'a>(
        &self,
        call: ToolCall<'a>,
        arguments: String,
    ) -> BoxFuture<'a, ServiceResult<String>> {
        (self.carry_out)(self.prepared(), call, arguments)
    }

    /// Parses the workspace and the request in the arguments.
    ///
    /// # Errors
    /// `invalid_request`, naming the invalid argument.
    pub fn request<T: DeserializeOwned>(
        &self,
        arguments: &str,
    ) -> ServiceResult<(Option<String>, T)> {
        let prepared = self.prepared();
        let given = prepared.read(arguments)?;
        Ok((given.workspace.clone(), given.part(RequestPart::Body)?))
    }

    /// Replaces a member of the request in the arguments.
    #[must_use]
    pub fn with_argument(&self, arguments: String, member: (&str, &impl Serialize)) -> String {
        self.prepared().with_argument(arguments, member)
    }

    /// Parses a response as that of the verb; `None` if it has another form.
    #[must_use]
    pub fn answer_as<T: DeserializeOwned>(&self, answer: &str) -> Option<T> {
        serde_json::from_str(&self.prepared().names.to_verb(answer)).ok()
    }

    /// Replaces a member of the verb's response in the tool's response.
    #[must_use]
    pub fn with_answer(&self, answer: String, member: (&str, &impl Serialize)) -> String {
        self.prepared().names.with_member(answer, member)
    }

    /// Returns the JSON schema of the structured response.
    #[must_use]
    pub fn output_schema(&self) -> Map<String, Value> {
        self.prepared().output.clone()
    }

    /// Returns the hints about a call's effects, by their names in MCP.
    #[must_use]
    pub fn hints(&self) -> [(&'static str, bool); 4] {
        [
            ("readOnlyHint", self.is_read_only()),
            ("destructiveHint", self.need == Need::DELETE),
            ("idempotentHint", self.repeatable),
            ("openWorldHint", false),
        ]
    }

    /// Returns the hints as MCP's annotations.
    #[must_use]
    pub fn annotations(&self) -> Value {
        let mut all = Map::from_iter([("title".to_owned(), Value::from(self.title))]);
        all.extend(self.hints().map(|(name, value)| (name.to_owned(), Value::from(value))));
        Value::Object(all)
    }
}
