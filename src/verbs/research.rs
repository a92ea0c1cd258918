//! The tools of a research, and those that continue a session: they have no route of their own.
//! They must not validate a step.

use super::{
    RequiredGrant, Visit,
    tools::{CallContext, ServeTool, Tool, ToolCall, Toolset},
};
use crate::{
    api::cursor::PageCursor,
    projection::body::SourceBody,
    service::{RecoverCall, ServiceError, ServiceResult, values::parse_point},
    wire::tools::{
        answer::{NAMES, ResearchAnswer, bound_by_name},
        continuation::{ContinueAnswer, ContinueSession},
        lists::{ClearAnswer, SourcesAnswer},
        research::{AddSources, ClearSession, GetResearchSession, SequentialSearch},
    },
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_tool(
        Tool::standalone::<SequentialSearch>(
            "sequential_search",
            "Record a research step",
            "When you found or decided something in long work: records a numbered step that \
             outlives your context. Begin with stepNumber 1; the same step again is a retry.",
            Toolset::Research,
            RequiredGrant::WRITE,
        )
        .with_name_changes(NAMES)
        .repeatable()
        .with_plain_key(),
    );
    visit.visit_tool(
        Tool::standalone::<GetResearchSession>(
            "get_research_session",
            "Recover the state of your work",
            "After a compaction, or when you do not know where the work stands: the task, the \
             user's words, plan, failures, changes, decisions and steps of your session. No \
             argument is needed.",
            Toolset::Research,
            RequiredGrant::READ,
        )
        .with_name_changes(NAMES),
    );
    visit.visit_tool(
        Tool::standalone::<AddSources>(
            "add_sources",
            "Add sources",
            "Add sources you found to the session; a known URL is not added twice.",
            Toolset::Research,
            RequiredGrant::WRITE,
        )
        .repeatable()
        .with_plain_key(),
    );
}

/// Visits the tools that unbind a session or continue one.
pub(super) fn visit_binding_tools(visit: &mut impl Visit) {
    visit.visit_tool(
        Tool::standalone::<ClearSession>(
            "clear_session",
            "Start afresh",
            "Unbind this connection from its session; the next stepNumber 1 starts a new one. \
             Nothing recorded is deleted.",
            Toolset::Research,
            RequiredGrant::WRITE,
        )
        .repeatable(),
    );
    visit.visit_tool(
        Tool::standalone::<ContinueSession>(
            "continue_session",
            "Continue a session",
            "Call it when the context window is nearly full, or when context was lost: records \
             what was tried and what is next, pages out what the context held, and returns all \
             that is needed to continue the same session.",
            Toolset::Memory,
            RequiredGrant::WRITE,
        )
        .repeatable(),
    );
}

impl ServeTool for SequentialSearch {
    type Answer = ResearchAnswer;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<ResearchAnswer> {
        if self.lacks_revised_step() {
            let problem = "isRevision is true, and no step is named that it corrects";
            return Err(ServiceError::invalid("revisesStep", problem));
        }
        let (delta, depth) = (self.delta.unwrap_or(false), self.depth);
        let caller = &call.caller_with_fence(self.fencing_token);
        let session = call.parse_session(self.session_id.as_deref())?;
        let mut step = self.into_call();
        (step.session, step.key) = (session, call.key.cloned());
        let answer = call.service.sequential_search(caller, call.via, step).await?;
        Ok(ResearchAnswer::from_step(answer, delta, depth))
    }

    /// Adds advice to the error for an argument of another tool, naming that tool.
    fn adapt_argument_error(error: ServiceError) -> ServiceError {
        if error.hint.field.as_deref() == Some("sources") {
            return error.action("record the step without them, then send them to add_sources");
        }
        error
    }
}

impl ServeTool for GetResearchSession {
    type Answer = ResearchAnswer;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<ResearchAnswer> {
        if self.step_id == Some(0) {
            return Err(ServiceError::invalid("stepId", "steps are numbered from 1"));
        }
        if self.branch_id.is_some() && self.step_id.is_none() && self.find.is_none() {
            let problem = "branchId says on which branch a step is looked for: name the step";
            return Err(ServiceError::invalid("stepId", problem));
        }
        let cursor = |text: &str| {
            PageCursor::parse(text).ok_or_else(|| {
                ServiceError::invalid("cursor", "it is none of an answer's cursors")
                    .action("send a cursor of an earlier answer, unchanged")
            })
        };
        let asked = RecoverCall {
            session: call.parse_session(self.session_id.as_deref())?,
            at: parse_point("at", self.at.as_deref())?,
            cursor: self.cursor.as_deref().map(cursor).transpose()?,
            step: self.step_id,
            branch: self.branch_id,
            find: self.find,
            // A program that calls over HTTP reads the structured members.
            is_text: call.via.connection.is_some(),
        };
        let found = call.service.get_research_session(call.caller, call.via, &asked).await?;
        Ok(ResearchAnswer::from_recovered(found))
    }
}

impl ServeTool for AddSources {
    type Answer = SourcesAnswer;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<SourcesAnswer> {
        let session = call.parse_session(self.session_id.as_deref())?;
        let caller = &call.caller_with_fence(self.fencing_token);
        let sources = self.sources.into_iter().map(|source| SourceBody {
            url: source.url,
            title: source.title,
            kind: source.relevance,
            step: source.found_in_step,
            found_by: Some("model".to_owned()),
            tool: None,
            from: Vec::new(),
        });
        let (sources, key) = (sources.collect(), call.key.cloned());
        let added = call.service.add_sources(caller, call.via, session.as_ref(), sources, key);
        let added = added.await?;
        Ok(SourcesAnswer {
            session_id: added.session.to_string(),
            bound_by: bound_by_name(added.bound_by),
            added: added.added,
            source_count: added.total,
        })
    }
}

impl ServeTool for ClearSession {
    type Answer = ClearAnswer;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<ClearAnswer> {
        let caller = &call.caller_with_fence(self.fencing_token);
        let cleared = call.service.clear_session(caller, call.via).await?;
        Ok(ClearAnswer {
            cleared_session_id: cleared.map(|session| session.to_string()),
            message: "unbound; everything recorded is kept; stepNumber 1 starts a new session",
        })
    }
}

impl ServeTool for ContinueSession {
    type Answer = ContinueAnswer;

    async fn serve_tool(self, call: ToolCall<'_>, _: CallContext) -> ServiceResult<ContinueAnswer> {
        let session = call.parse_session(self.session_id())?;
        let caller = &call.caller_with_fence(self.fencing_token);
        let mut asked = self.into_call();
        (asked.session, asked.key) = (session, call.key.cloned());
        let continued = call.service.continue_session(caller, call.via, asked).await;
        Ok(ContinueAnswer::from_continued(continued?))
    }
}
