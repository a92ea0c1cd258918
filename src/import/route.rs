//! Finds the lines that `/rewind` withdrew from a transcript of Claude Code: the next message then
//! follows an earlier one, and the lines between leave the conversation. Only a prompt with the
//! same parent as an earlier prompt withdraws it: results of parallel calls, retried answers and
//! boundaries of compactions also branch. It must not make events.

use std::collections::HashMap;

use super::{
    members::{Members, is_true, listed, text_of},
    queue::attached,
};
use crate::wire::typed_by_person;

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Prompt,
    /// A prompt that was queued while the agent worked.
    Queued,
    /// A command without text from the user.
    Command,
    Answer,
    Result,
    /// The summary of a compaction.
    Summary,
    Nothing,
}

#[derive(Clone, Debug)]
struct Node {
    parent: Option<usize>,
    says: Says,
    /// The number of its line.
    line: u64,
}

/// The lines of a transcript as a tree, each linked to the line that it follows.
#[derive(Clone, Debug, Default)]
pub(super) struct LineTree {
    nodes: Vec<Node>,
    /// Nodes by a hash of their `uuid`s.
    named: HashMap<u64, usize>,
    session: Option<String>,
}

impl LineTree {
    /// Adds the next line.
    pub(super) fn take(&mut self, line: &Members, number: u64) {
        let Some(uuid) = line.text("uuid").filter(|_| !is_true(line, "isSidechain")) else {
            return;
        };
        let node = Node { parent: self.parent(line), says: kind_of_line(line), line: number };
        self.named.insert(short_id(&uuid), self.nodes.len());
        self.nodes.push(node);
    }

    /// Returns the text that the user typed in a line that is a prompt.
    pub(super) fn prompt(line: &Members) -> Option<String> {
        if !matches!(kind_of_line(line), Says::Prompt) || is_true(line, "isSidechain") {
            return None;
        }
        let message = Members::read(line.non_null("message")?.get()).ok()?;
        message.non_null("content").map(typed_by_person)
    }

    /// Returns true if a line with that `uuid` was added.
    pub(super) fn has(&self, uuid: &str) -> bool {
        self.named.contains_key(&short_id(uuid))
    }

    /// Returns the parent of a line. A line with an unknown parent follows the line before it, as
    /// does a boundary, a summary, and the first line of another session. A `null` parent makes a
    /// line a root.
    fn parent(&mut self, line: &Members) -> Option<usize> {
        let session = line.text("sessionId");
        let is_other = self.session.is_some() && session.is_some() && self.session != session;
        self.session = session.or(self.session.take());
        let before = self.nodes.len().checked_sub(1);
        let named =
            |name: &str| line.text(name).map(|uuid| self.named.get(&short_id(&uuid)).copied());
        let continues = is_other
            || line.raw("parentUuid").is_none()
            || is_true(line, "isCompactSummary")
            || line.text("subtype").as_deref() == Some("compact_boundary");
        match named("parentUuid").or_else(|| named("logicalParentUuid")) {
            Some(found) => found.or(before),
            None => before.filter(|_| continues),
        }
    }

    /// Returns the first and last line of each run withdrawn from the conversation, with the lines
    /// between them that are outside the tree.
    pub(super) fn withdrawn(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut was = false;
        let ends = self.nodes.iter().skip(1).map(|node| node.line - 1).chain([u64::MAX]);
        for ((node, is), end) in self.nodes.iter().zip(self.abandoned()).zip(ends) {
            match runs.last_mut().filter(|_| was && is) {
                Some(run) => run.1 = end.max(node.line),
                None if is => runs.push((node.line, end.max(node.line))),
                None => {}
            }
            was = is;
        }
        runs
    }

    fn abandoned(&self) -> Vec<bool> {
        let says = |at: usize| self.nodes.get(at).map_or(Says::Nothing, |node| node.says);
        let mut abandoned = vec![false; self.nodes.len()];
        let is_said = |node: &Node| !matches!(node.says, Says::Nothing | Says::Command);
        let Some(leaf) = self.nodes.iter().rposition(is_said) else { return abandoned };
        let children = self.children();
        // Walks from the last message to the root: `next` is the kind of the message after this
        // node.
        let (mut at, mut next) = (leaf, Says::Nothing);
        loop {
            next = match (says(at), next) {
                (Says::Nothing, next) => next,
                (Says::Command, Says::Answer) => Says::Prompt,
                (Says::Command, next) => next,
                (said, _) => said,
            };
            let parent = self.nodes.get(at).and_then(|node| node.parent);
            if next == Says::Prompt {
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

    /// Returns the nodes by their parents.
    fn children(&self) -> HashMap<Option<usize>, Vec<usize>> {
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            children.entry(node.parent).or_default().push(at);
        }
        children
    }

    /// Returns true if the first message at or below a node is a prompt.
    fn begins_with_prompt(&self, at: usize, of: &HashMap<Option<usize>, Vec<usize>>) -> bool {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            match self.nodes.get(at).map_or(Says::Nothing, |node| node.says) {
                Says::Prompt | Says::Queued | Says::Command => return true,
                Says::Answer | Says::Result | Says::Summary => return false,
                Says::Nothing => {
                    let next = of.get(&Some(at)).map(Vec::as_slice).unwrap_or_default();
                    open.extend(next.iter().rev());
                }
            }
        }
        false
    }
}

fn kind_of_line(line: &Members) -> Says {
    match line.text("type").as_deref() {
        Some("assistant") => Says::Answer,
        Some("attachment") if attached(line).is_some() => Says::Queued,
        Some("user") if is_true(line, "isCompactSummary") => Says::Summary,
        Some("user") if !is_true(line, "isMeta") => {
            kind_of_user_line(line).unwrap_or(Says::Nothing)
        }
        _ => Says::Nothing,
    }
}

fn kind_of_user_line(line: &Members) -> Option<Says> {
    let message = Members::read(line.non_null("message")?.get()).ok()?;
    let content = message.non_null("content")?;
    let blocks: Vec<Members> = listed(content).unwrap_or_default();
    let has = |kind: &str| blocks.iter().any(|block| block.text("type").as_deref() == Some(kind));
    Some(match () {
        () if has("tool_result") => Says::Result,
        () if !typed_by_person(content).is_empty() || has("image") => Says::Prompt,
        () if text_of(content).contains("<command-name>") => Says::Command,
        () => Says::Nothing,
    })
}

fn short_id(uuid: &str) -> u64 {
    let hash = blake3::hash(uuid.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses lines as `uuid<parent kind`; returns the numbers of the withdrawn ones.
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
            route.take(&Members::read(&text).expect("an object"), count);
        }
        let runs = route.withdrawn().into_iter();
        runs.flat_map(|(first, last)| first..=last.min(count)).collect()
    }

    #[test]
    fn only_a_prompt_that_replaces_a_prompt_withdraws_lines() {
        for (lines, expected) in [
            ("u1< prompt, a1<u1 answer, u2<a1 prompt, a2<u2 answer, u3<a1 prompt", vec![3, 4]),
            // Back to the first prompt, twice.
            ("u1< prompt, a1<u1 answer, u2< prompt, a2<u2 answer", vec![1, 2]),
            ("u1< prompt, a1<u1 answer, u2< prompt, a2<u2 answer, u3< prompt", vec![1, 2, 3, 4]),
            // Within withdrawn lines, and with lines between.
            (
                "u1< prompt, a1<u1 answer, u2<a1 prompt, a2<u2 answer, u3<a2 prompt, u4<a2 prompt, \
                 s<u4 system, u5<a1 prompt, a5<u5 answer",
                vec![3, 4, 5, 6, 7],
            ),
            // An attachment or a command before the prompt.
            ("u1< prompt, a1<u1 answer, u2<a1 prompt, h<a1 attachment, u3<h prompt", vec![3]),
            ("u1< prompt, a1<u1 answer, u2<a1 prompt, c<a1 command, a3<c answer", vec![3]),
            ("u1< prompt, a1<u1 answer, c<a1 command, u3<c prompt, u4<a1 prompt", vec![3, 4]),
            // A subagent's line belongs to the run around it.
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
