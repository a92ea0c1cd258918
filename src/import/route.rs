//! Finds the lines that `/rewind` withdrew from a transcript of Claude Code: the next message then
//! has an earlier one as its parent, and the lines between leave the conversation. Only a prompt
//! with the parent of an earlier prompt withdraws it: results of parallel calls, retried answers
//! and compaction boundaries also branch. It must not make events.

use std::collections::HashMap;

use super::{
    members::{JsonMembers, content_text, is_true, parse_list},
    queue::queued_prompt,
};
use crate::wire::extract_typed_text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Prompt,
    /// A prompt that was queued while the agent worked.
    Queued,
    /// A command without text from the user.
    Command,
    Assistant,
    Result,
    /// The summary of a compaction.
    Summary,
    Nothing,
}

#[derive(Clone, Debug)]
struct LineNode {
    parent: Option<usize>,
    kind: LineKind,
    /// Line number.
    line: u64,
}

/// The lines of a transcript as a tree: each has the line that it follows as its parent.
#[derive(Clone, Debug, Default)]
pub(super) struct LineTree {
    nodes: Vec<LineNode>,
    /// Nodes by a hash of their `uuid`s.
    by_uuid: HashMap<u64, usize>,
    session: Option<String>,
}

impl LineTree {
    /// Adds the next line, unless it is a subagent's or has no `uuid`.
    pub(super) fn add_line(&mut self, line: &JsonMembers, number: u64) {
        let Some(uuid) = line.text("uuid").filter(|_| !is_true(line, "isSidechain")) else {
            return;
        };
        let node =
            LineNode { parent: self.find_parent(line), kind: kind_of_line(line), line: number };
        self.by_uuid.insert(short_id(&uuid), self.nodes.len());
        self.nodes.push(node);
    }

    /// Returns the text that the user typed, if the line is a prompt.
    pub(super) fn prompt_text(line: &JsonMembers) -> Option<String> {
        if !matches!(kind_of_line(line), LineKind::Prompt) || is_true(line, "isSidechain") {
            return None;
        }
        let message = JsonMembers::read(line.non_null("message")?.get()).ok()?;
        message.non_null("content").map(extract_typed_text)
    }

    /// Returns true if a line with the `uuid` was added.
    pub(super) fn contains(&self, uuid: &str) -> bool {
        self.by_uuid.contains_key(&short_id(uuid))
    }

    /// Returns the parent of a line: the previous line if it is unknown, for a boundary, a summary
    /// and the first line of another session. A line whose parent is `null` is a root.
    fn find_parent(&mut self, line: &JsonMembers) -> Option<usize> {
        let session = line.text("sessionId");
        let is_other = self.session.is_some() && session.is_some() && self.session != session;
        self.session = session.or(self.session.take());
        let before = self.nodes.len().checked_sub(1);
        let find =
            |name: &str| line.text(name).map(|uuid| self.by_uuid.get(&short_id(&uuid)).copied());
        let continues = is_other
            || line.raw("parentUuid").is_none()
            || is_true(line, "isCompactSummary")
            || line.text("subtype").as_deref() == Some("compact_boundary");
        match find("parentUuid").or_else(|| find("logicalParentUuid")) {
            Some(found) => found.or(before),
            None => before.filter(|_| continues),
        }
    }

    /// Returns first and last line number of each withdrawn run, which includes lines between them
    /// that are not in the tree.
    pub(super) fn withdrawn_lines(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut was = false;
        let ends = self.nodes.iter().skip(1).map(|node| node.line - 1).chain([u64::MAX]);
        for ((node, is), end) in self.nodes.iter().zip(self.find_abandoned()).zip(ends) {
            match runs.last_mut().filter(|_| was && is) {
                Some(run) => run.1 = end.max(node.line),
                None if is => runs.push((node.line, end.max(node.line))),
                None => {}
            }
            was = is;
        }
        runs
    }

    fn find_abandoned(&self) -> Vec<bool> {
        let kind = |at: usize| self.nodes.get(at).map_or(LineKind::Nothing, |node| node.kind);
        let mut abandoned = vec![false; self.nodes.len()];
        let is_message =
            |node: &LineNode| !matches!(node.kind, LineKind::Nothing | LineKind::Command);
        let Some(leaf) = self.nodes.iter().rposition(is_message) else { return abandoned };
        let children = self.children();
        // Walks from the last message to the root; `next` is the kind of the following message.
        let (mut at, mut next) = (leaf, LineKind::Nothing);
        loop {
            next = match (kind(at), next) {
                (LineKind::Nothing, next) => next,
                (LineKind::Command, LineKind::Assistant) => LineKind::Prompt,
                (LineKind::Command, next) => next,
                (kind, _) => kind,
            };
            let parent = self.nodes.get(at).and_then(|node| node.parent);
            if next == LineKind::Prompt {
                let siblings = children.get(&parent).map(Vec::as_slice).unwrap_or_default();
                for other in siblings.iter().filter(|other| **other != at) {
                    let is_prompt = self.begins_with_prompt(*other, &children);
                    if let Some(mark) = abandoned.get_mut(*other).filter(|_| is_prompt) {
                        *mark = true;
                    }
                }
            }
            match parent {
                Some(parent) => at = parent,
                None => break,
            }
        }
        for at in 0..self.nodes.len() {
            let parent = self.nodes.get(at).and_then(|node| node.parent);
            let of_parent = parent.and_then(|parent| abandoned.get(parent).copied());
            if let (Some(mark), Some(true)) = (abandoned.get_mut(at), of_parent) {
                *mark = true;
            }
        }
        abandoned
    }

    /// Returns the indexes of nodes by parent.
    fn children(&self) -> HashMap<Option<usize>, Vec<usize>> {
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            children.entry(node.parent).or_default().push(at);
        }
        children
    }

    /// Returns true if the first message at or below a node is a prompt or a command.
    fn begins_with_prompt(&self, at: usize, of: &HashMap<Option<usize>, Vec<usize>>) -> bool {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            match self.nodes.get(at).map_or(LineKind::Nothing, |node| node.kind) {
                LineKind::Prompt | LineKind::Queued | LineKind::Command => return true,
                LineKind::Assistant | LineKind::Result | LineKind::Summary => return false,
                LineKind::Nothing => {
                    let next = of.get(&Some(at)).map(Vec::as_slice).unwrap_or_default();
                    open.extend(next.iter().rev());
                }
            }
        }
        false
    }
}

fn kind_of_line(line: &JsonMembers) -> LineKind {
    match line.text("type").as_deref() {
        Some("assistant") => LineKind::Assistant,
        Some("attachment") if queued_prompt(line).is_some() => LineKind::Queued,
        Some("user") if is_true(line, "isCompactSummary") => LineKind::Summary,
        Some("user") if !is_true(line, "isMeta") => {
            kind_of_user_line(line).unwrap_or(LineKind::Nothing)
        }
        _ => LineKind::Nothing,
    }
}

fn kind_of_user_line(line: &JsonMembers) -> Option<LineKind> {
    let message = JsonMembers::read(line.non_null("message")?.get()).ok()?;
    let content = message.non_null("content")?;
    let blocks: Vec<JsonMembers> = parse_list(content).unwrap_or_default();
    let has = |kind: &str| blocks.iter().any(|block| block.text("type").as_deref() == Some(kind));
    Some(match () {
        () if has("tool_result") => LineKind::Result,
        () if !extract_typed_text(content).is_empty() || has("image") => LineKind::Prompt,
        () if content_text(content).contains("<command-name>") => LineKind::Command,
        () => LineKind::Nothing,
    })
}

pub(super) fn short_id(uuid: &str) -> u64 {
    let hash = blake3::hash(uuid.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds lines given as `uuid<parent kind`; returns the numbers of the withdrawn ones.
    fn withdrawn(lines: &str) -> Vec<u64> {
        let mut route = LineTree::default();
        let mut count = 0;
        for text in lines.split(", ") {
            count += 1;
            let (names, kind) = text.split_once(' ').expect("a name and a kind");
            let (uuid, parent) = names.split_once('<').expect("a parent");
            let parent = if parent.is_empty() { "null" } else { &format!("\"{parent}\"") };
            let said = match kind {
                "prompt" => r#""type":"user","message":{"content":"Do it well"}"#,
                "command" => {
                    r#""type":"user","message":{"content":"<command-name>/r</command-name>"}"#
                }
                "result" => r#""type":"user","message":{"content":[{"type":"tool_result"}]}"#,
                "stopped" => {
                    r#""type":"user","message":{"content":"[Request interrupted by user]"}"#
                }
                "answer" => r#""type":"assistant","message":{"content":"Done"}"#,
                "aside" => r#""type":"assistant","isSidechain":true"#,
                "boundary" => {
                    r#""type":"system","subtype":"compact_boundary","logicalParentUuid":"a1""#
                }
                "summary" => r#""type":"user","isCompactSummary":true,"message":{"content":"S"}"#,
                other => &format!("\"type\":\"{other}\""),
            };
            let text = format!("{{\"uuid\":\"{uuid}\",\"parentUuid\":{parent},{said}}}");
            route.add_line(&JsonMembers::read(&text).expect("an object"), count);
        }
        let runs = route.withdrawn_lines().into_iter();
        runs.flat_map(|(first, last)| first..=last.min(count)).collect()
    }

    #[test]
    fn only_a_prompt_that_replaces_a_prompt_withdraws_lines() {
        for (lines, expected) in [
            ("u1< prompt, a1<u1 answer, u2<a1 prompt, a2<u2 answer, u3<a1 prompt", vec![3, 4]),
            // Two rewinds to the first prompt.
            ("u1< prompt, a1<u1 answer, u2< prompt, a2<u2 answer", vec![1, 2]),
            ("u1< prompt, a1<u1 answer, u2< prompt, a2<u2 answer, u3< prompt", vec![1, 2, 3, 4]),
            // A rewind within withdrawn lines, and one with lines between.
            (
                "u1< prompt, a1<u1 answer, u2<a1 prompt, a2<u2 answer, u3<a2 prompt, u4<a2 prompt, \
                 s<u4 system, u5<a1 prompt, a5<u5 answer",
                vec![3, 4, 5, 6, 7],
            ),
            // An attachment or a command before the prompt.
            ("u1< prompt, a1<u1 answer, u2<a1 prompt, h<a1 attachment, u3<h prompt", vec![3]),
            ("u1< prompt, a1<u1 answer, u2<a1 prompt, c<a1 command, a3<c answer", vec![3]),
            ("u1< prompt, a1<u1 answer, c<a1 command, u3<c prompt, u4<a1 prompt", vec![3, 4]),
            // A subagent's line is part of the run around it.
            ("u1< prompt, u2<u1 prompt, x<u2 aside, u3<u1 prompt", vec![2, 3]),
            // Parallel results, a retried answer, an unknown parent.
            ("u1< prompt, a1<u1 answer, a2<a1 answer, r1<a1 result, r2<a2 result", vec![]),
            ("u1< prompt, a1<u1 answer, b1<u1 answer, u2<b1 prompt", vec![]),
            ("u1< prompt, a1<u1 answer, u2<gone prompt, a2<u2 answer", vec![]),
            ("u1< prompt, a1<u1 answer, i<a1 stopped, u2<i prompt, s<a1 system", vec![]),
            // A compaction, and a rewind to before it.
            ("u1< prompt, a1<u1 answer, b< boundary, s<b summary, u2<s prompt", vec![]),
            ("u1< prompt, a1<u1 answer, b< boundary, s<b summary, u2<a1 prompt", vec![]),
            (
                "u1< prompt, a1<u1 answer, u2<a1 prompt, a2<u2 answer, b<a2 boundary, s<b summary, \
                 u3<s prompt, u4<a1 prompt",
                vec![3, 4, 5, 6, 7],
            ),
        ] {
            assert_eq!(withdrawn(lines), expected, "{lines}");
        }
    }
}
