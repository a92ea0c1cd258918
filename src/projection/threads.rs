//! Subagents of a session: who called them, what they did and when. It must not judge their work.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body;
use crate::{
    api::views::SubagentOut,
    event::{Event, Position, kinds, push_bounded, text::one_line},
    traces::{ToolEvent, TracedCall, content_text, parse_string, read_thread, thread_name, tools},
};

/// Most subagents kept.
const THREADS_MAX: usize = 1_024;
/// Most calls of subagents kept that no subagent is known of yet.
const CALLS_MAX: usize = 256;
/// Most characters kept of a kind and a description.
const KIND_CHARS_MAX: usize = 100;
const DESCRIPTION_CHARS_MAX: usize = 160;
/// Member of the events of a subagent.
const MEMBER: &str = "session_thread_id";
/// Words before the id of a subagent in the result of the call that started it.
const NAMES_AGENT: &str = "agentId: ";

/// Subagents of a session, in the order of their first events.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    all: Vec<SubagentOut>,
    calls: VecDeque<AgentCall>,
    is_full: bool,
}

/// A call that starts a subagent.
#[derive(Clone, Debug)]
struct AgentCall {
    position: Position,
    /// Id of the subagent, once a result names it or its first message is the prompt.
    agent: Option<String>,
    /// Hash of the prompt.
    prompt: Option<u64>,
    thread: Option<String>,
    kind: Option<String>,
    description: Option<String>,
}

/// Members of an event by which it belongs to a subagent.
#[derive(Deserialize)]
struct SubagentBody<'a> {
    #[serde(borrow)]
    session_thread_id: Option<&'a RawValue>,
    agent_name: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Member of the result of a call that started a subagent.
#[derive(Deserialize)]
struct StartedBody {
    agent_id: Option<String>,
}

impl Threads {
    /// Returns the subagents, each with its depth: 1 for one that the session's agent called.
    #[must_use]
    pub fn list(&self) -> Vec<SubagentOut> {
        let depth = |one: &SubagentOut| {
            let (mut depth, mut parent) = (1, one.parent.as_deref());
            while let Some(name) = parent.filter(|_| depth < self.all.len()) {
                depth += 1;
                let above = self.all.iter().find(|other| other.thread == name);
                parent = above.and_then(|other| other.parent.as_deref());
            }
            depth as u64
        };
        self.all.iter().map(|one| SubagentOut { depth: depth(one), ..one.clone() }).collect()
    }

    /// Returns false if there were more subagents than are kept.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.is_full
    }

    pub(super) fn fold(&mut self, event: &Event, tool_event: Option<&ToolEvent<'_>>) {
        match tool_event {
            Some(ToolEvent::Call(call, input)) => self.fold_call(event, call, *input),
            Some(ToolEvent::Result(call, answer)) => {
                if let Some(one) = self.thread_at(call.thread(), event.position) {
                    one.failures += u64::from(answer.failed);
                }
                self.link_result(event, call, &answer.text);
            }
            None => drop(self.fold_other(event)),
        }
    }

    fn fold_call(&mut self, event: &Event, call: &TracedCall, input: Option<&RawValue>) {
        if let Some(one) = self.thread_at(call.thread(), event.position) {
            one.calls += 1;
        }
        // Of another tool, the input is not parsed: it may be large.
        let input = input.filter(|_| matches!(&*call.tool, "Task" | "Agent"));
        if let Some(input) = input.and_then(|input| tools::parse_object(input.get())) {
            let short = |names: &[&str], most| {
                tools::read_first(&input, names, parse_string).map(|text| one_line(&text, most))
            };
            let started = AgentCall {
                position: event.position,
                agent: None,
                prompt: tools::read_first(&input, &["prompt"], parse_string)
                    .map(|text| hash_of_prompt(&text)),
                thread: call.thread().map(str::to_owned),
                kind: short(&["subagent_type", "agent_type"], KIND_CHARS_MAX),
                description: short(&["description", "prompt"], DESCRIPTION_CHARS_MAX),
            };
            push_bounded(&mut self.calls, started, CALLS_MAX);
        }
    }

    /// Records the call that started a subagent, by the id in its result.
    fn link_result(&mut self, event: &Event, call: &TracedCall, text: &str) {
        let at = self.calls.iter().position(|open| open.position == call.position);
        let Some(started) = at.and_then(|at| self.calls.remove(at)) else { return };
        let member = body::read::<StartedBody>(&event.body).and_then(|body| body.agent_id);
        let named = text.rfind(NAMES_AGENT).and_then(|at| text.get(at + NAMES_AGENT.len()..));
        let named = named.map(|rest| {
            let end = rest.find(|one: char| !one.is_alphanumeric() && !matches!(one, '-' | '_'));
            thread_name(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default())
        });
        let member = member.as_deref().map(thread_name);
        if let Some(name) = member.or(named).filter(|name| !name.is_empty()) {
            match self.all.iter_mut().find(|one| one.thread == name) {
                Some(one) => started.link(one),
                // A subagent in the background, or of which no event is recorded yet.
                None => {
                    let started = AgentCall { agent: Some(name), ..started };
                    push_bounded(&mut self.calls, started, CALLS_MAX);
                }
            }
        }
    }

    fn fold_other(&mut self, event: &Event) -> Option<()> {
        str::from_utf8(&event.body).ok().filter(|text| text.contains(MEMBER))?;
        let body: SubagentBody<'_> = body::read(&event.body)?;
        let thread = read_thread(body.session_thread_id?)?;
        let known = self.all.iter().any(|one| one.thread == thread);
        let kind = event.kind.as_str();
        let named = body.agent_name.filter(|name| !name.is_empty());
        if !known && kind == kinds::SESSION_THREAD_STATUS_IDLE && named.is_none() {
            // The program's own, which wrote the summary of a compaction.
            return None;
        }
        let is_named = self.calls.iter().any(|call| call.agent.as_ref() == Some(&thread));
        let is_first = kind == kinds::AGENT_THREAD_MESSAGE_SENT && !known && !is_named;
        let prompt = body.content.filter(|_| is_first);
        let prompt = prompt.map(|prompt| hash_of_prompt(&content_text(prompt)));
        let is_prompted = |call: &&mut AgentCall| {
            call.agent.is_none() && prompt.is_some_and(|one| call.prompt == Some(one))
        };
        let mut prompted = self.calls.iter_mut().filter(is_prompted);
        if let (Some(call), None) = (prompted.next(), prompted.next()) {
            call.agent = Some(thread.clone());
        }
        // Until its result names the subagent, a single call of its kind is the one.
        let fits = |call: &&AgentCall| {
            call.agent.is_none() && (call.kind.is_none() || named.is_none() || call.kind == named)
        };
        let mut calls = self.calls.iter().filter(fits);
        let only = calls.next().filter(|_| !known && calls.next().is_none()).cloned();
        let one = self.thread_at(Some(&thread), event.position)?;
        match kind {
            kinds::SESSION_THREAD_STATUS_RUNNING => one.is_running = true,
            kinds::SESSION_THREAD_STATUS_IDLE => one.is_running = false,
            _ => {}
        }
        if let Some(call) = only.filter(|_| one.call.is_none()) {
            call.link(one);
        }
        if let Some(named) = named {
            one.kind = Some(one_line(&named, KIND_CHARS_MAX));
        }
        Some(())
    }

    /// Returns a subagent, with a position as its latest; `None` for the session's own thread.
    fn thread_at(&mut self, thread: Option<&str>, at: Position) -> Option<&mut SubagentOut> {
        let thread = thread?.to_owned();
        let known = self.all.iter().rposition(|one| one.thread == thread);
        if known.is_none() && self.all.len() >= THREADS_MAX {
            self.is_full = true;
            return None;
        }
        let index = known.unwrap_or_else(|| {
            let of = self.calls.iter().position(|call| call.agent.as_ref() == Some(&thread));
            let mut new = SubagentOut { thread, from: at, ..SubagentOut::default() };
            of.and_then(|of| self.calls.remove(of))
                .into_iter()
                .for_each(|call| call.link(&mut new));
            self.all.push(new);
            self.all.len() - 1
        });
        let one = self.all.get_mut(index)?;
        one.to = at.plus(1);
        Some(one)
    }
}

/// Hashes a prompt, without blanks around it.
fn hash_of_prompt(prompt: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    prompt.trim().hash(&mut hasher);
    hasher.finish()
}

impl AgentCall {
    fn link(self, one: &mut SubagentOut) {
        one.call = Some(self.position);
        one.parent = self.thread;
        one.kind = self.kind.or(one.kind.take());
        one.description = self.description;
    }
}
