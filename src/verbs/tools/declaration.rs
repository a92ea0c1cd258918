//! Declaration of a tool: its name, its description, and the verb or the request that it executes.
//! It must not execute anything.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    OF_AGENT, ToolCall, Toolset,
    prepared::PreparedTool,
    serving::{self, ServeTool},
    table::{Argument, RequestPart, ToolShape, ToolTarget},
    tools,
};
use crate::{
    access::Grant,
    service::ServiceResult,
    verbs::{RequiredGrant, Serve},
    wire::{
        schema,
        tools::names::{AS_IS, Changes},
    },
};

/// A declared tool.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Name of the tool.
    pub name: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Effect of the tool, and when to call it.
    pub about: &'static str,
    /// Toolset that it belongs to.
    pub toolset: Toolset,
    /// Grants that its caller needs. A tool that needs no more than reading changes nothing.
    pub need: RequiredGrant,
    /// True if a repeated call has no further effect.
    pub repeatable: bool,
    /// True if its arguments contain an event or a state of the caller's, which may be large.
    pub has_large_arguments: bool,
    /// True if the key of a call is used without a digest of its arguments: the verb makes one, or
    /// they are stored as events and compared. A stored digest must not reveal redacted content.
    pub plain_key: bool,
    /// Part of a call that a front end performs, because it can read the files.
    pub front_end_part: FrontEndPart,
    declared: ToolShape,
    carry_out: ServeFn,
}

/// Executes a call with these arguments and returns the answer as JSON text.
type ServeFn =
    for<'a> fn(Arc<PreparedTool>, ToolCall<'a>, String) -> BoxFuture<'a, ServiceResult<String>>;

/// Part of a call that a front end performs, because it can read the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEndPart {
    /// None.
    Nothing,
    /// It adds hashes of files to a save, and what extractors found to its answer.
    Save,
    /// It inspects the files of a restore.
    Restore,
}

impl Tool {
    const fn new(
        (name, title, about): (&'static str, &'static str, &'static str),
        toolset: Toolset,
        need: RequiredGrant,
        declared: ToolShape,
        carry_out: ServeFn,
    ) -> Self {
        Self {
            name,
            title,
            about,
            toolset,
            need,
            repeatable: matches!(need, RequiredGrant::Grant(Grant::Read)),
            has_large_arguments: false,
            plain_key: false,
            front_end_part: FrontEndPart::Nothing,
            declared,
            carry_out,
        }
    }

    /// Declares a tool with dedicated arguments and response.
    pub(crate) const fn standalone<T: ServeTool>(
        name: &'static str,
        title: &'static str,
        about: &'static str,
        toolset: Toolset,
        need: RequiredGrant,
    ) -> Self {
        let declared = ToolShape {
            target: ToolTarget::Nothing,
            is_marked: false,
            has_fence: false,
            arguments: &[],
            changes: AS_IS,
            parts: serving::request_schema::<T>,
            answer: schema::output::<T::Answer>,
        };
        Self::new((name, title, about), toolset, need, declared, serving::serve_request::<T>)
    }

    /// Declares a tool of a request: its arguments are members of it, its response is the verb's.
    pub(crate) const fn for_request<T: ServeTool>(
        name: &'static str,
        title: &'static str,
        toolset: Toolset,
        need: RequiredGrant,
        arguments: &'static [Argument],
    ) -> Self {
        let tool = Self::standalone::<T>(name, title, "", toolset, need);
        let declared = ToolShape { is_marked: true, arguments, changes: &[], ..tool.declared };
        Self { declared, ..tool }
    }

    /// Declares a tool of a verb: its arguments are the verb's parameters, its response the verb's.
    pub const fn for_verb<V: Serve>(
        name: &'static str,
        title: &'static str,
        toolset: Toolset,
    ) -> Self {
        let need = V::ROUTE.need;
        let declared = ToolShape {
            target: ToolTarget::FromPath,
            is_marked: true,
            has_fence: !matches!(need, RequiredGrant::Grant(Grant::Read)),
            arguments: &[],
            changes: &[],
            parts: serving::verb_schemas::<V>,
            answer: schema::output::<V::Answer>,
        };
        Self::new((name, title, V::ABOUT), toolset, need, declared, serving::serve::<V>)
    }

    /// Sets a description for models.
    #[must_use]
    pub const fn with_about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Restricts the tool to these arguments.
    #[must_use]
    pub const fn with_arguments(self, arguments: &'static [Argument]) -> Self {
        Self { declared: ToolShape { arguments, ..self.declared }, ..self }
    }

    /// Sets other names for some members.
    #[must_use]
    pub(crate) const fn with_name_changes(self, changes: Changes) -> Self {
        Self { declared: ToolShape { changes, ..self.declared }, ..self }
    }

    /// Adds a session argument; the default is the bound session.
    #[must_use]
    pub const fn for_session(self) -> Self {
        Self { declared: ToolShape { target: ToolTarget::Session, ..self.declared }, ..self }
    }

    /// Adds a workspace argument.
    #[must_use]
    pub const fn for_workspace(self) -> Self {
        Self { declared: ToolShape { target: ToolTarget::Workspace, ..self.declared }, ..self }
    }

    /// Marks the tool as idempotent.
    #[must_use]
    pub const fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    /// Marks the tool's arguments as carrying an event or a state.
    #[must_use]
    pub const fn with_large_arguments(self) -> Self {
        Self { has_large_arguments: true, ..self }
    }

    /// Omits the digest of the arguments from the tool's key.
    #[must_use]
    pub const fn with_plain_key(self) -> Self {
        Self { plain_key: true, ..self }
    }

    /// Sets the part of a call that a front end performs.
    #[must_use]
    pub const fn with_front_end_part(self, front_end_part: FrontEndPart) -> Self {
        Self { front_end_part, ..self }
    }

    /// Marks the tool's response as free of recorded text.
    #[must_use]
    pub const fn without_trust_marker(self) -> Self {
        Self { declared: ToolShape { is_marked: false, ..self.declared }, ..self }
    }

    /// Returns the tool's schemas and names, cached for a listed tool.
    fn prepare(&self) -> Arc<PreparedTool> {
        static ALL: LazyLock<HashMap<&str, Arc<PreparedTool>>> = LazyLock::new(|| {
            let prepared = |tool: &Tool| (tool.name, Arc::new(PreparedTool::new(&tool.declared)));
            tools().iter().map(prepared).collect()
        });
        ALL.get(self.name).map_or_else(|| Arc::new(PreparedTool::new(&self.declared)), Arc::clone)
    }

    /// Returns true if the tool changes nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.need == RequiredGrant::READ
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
        schema::reduce_for_models(self.prepare().input_for_listing())
    }

    /// Returns the arguments listed for an installed agent; `None` if it is not offered this tool.
    pub(super) fn agent_arguments(&self) -> Option<&'static [&'static str]> {
        OF_AGENT.iter().find(|(name, _)| *name == self.name).map(|(_, listed)| *listed)
    }

    /// Returns the JSON schema of the arguments for a client with these toolsets.
    #[must_use]
    pub fn schema_for(&self, toolsets: &[Toolset]) -> Map<String, Value> {
        let mut schema = self.input_schema();
        let listed = self.agent_arguments().filter(|_| *toolsets == [Toolset::Agent]);
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
        (self.carry_out)(self.prepare(), call, arguments)
    }

    /// Parses the workspace and the request in the arguments.
    ///
    /// # Errors
    /// `invalid_request`, naming the invalid argument.
    pub fn parse_request<T: DeserializeOwned>(
        &self,
        arguments: &str,
    ) -> ServiceResult<(Option<String>, T)> {
        let prepared = self.prepare();
        let given = prepared.parse_arguments(arguments)?;
        Ok((given.workspace.clone(), given.parse_part(RequestPart::Body)?))
    }

    /// Replaces a member of the request in the arguments.
    #[must_use]
    pub fn with_argument(&self, arguments: String, member: (&str, &impl Serialize)) -> String {
        self.prepare().with_argument(arguments, member)
    }

    /// Parses a response as that of the verb; `None` if it has another form.
    #[must_use]
    pub fn parse_answer<T: DeserializeOwned>(&self, answer: &str) -> Option<T> {
        serde_json::from_str(&self.prepare().names.to_verb(answer)).ok()
    }

    /// Replaces a member of the verb's response in the tool's response.
    #[must_use]
    pub fn with_answer(&self, answer: String, member: (&str, &impl Serialize)) -> String {
        self.prepare().names.replace_member(answer, member)
    }

    /// Returns the JSON schema of the structured response.
    #[must_use]
    pub fn output_schema(&self) -> Map<String, Value> {
        self.prepare().output.clone()
    }

    /// Returns the hints about a call's effects, by their names in MCP.
    #[must_use]
    pub fn hints(&self) -> [(&'static str, bool); 4] {
        [
            ("readOnlyHint", self.is_read_only()),
            ("destructiveHint", self.need == RequiredGrant::DELETE),
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
