//! Units as a strict conversation, which every model's API accepts: the roles alternate, a person
//! begins, each call is answered by the very next message and each result follows its call, no
//! message is empty. It must not leave anything out: the window has chosen.

use super::{
    said::{ContentBlock, Speech, ToolResult, ToolUse},
    unit::Unit,
};
use crate::event::text::ELLIPSIS;

/// The first message of a conversation whose beginning is left out.
const OPENING: &str = "(What came before is not shown.)";

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person's, or a tool's.
    User,
    /// The model's.
    Assistant,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagePart {
    /// Words or a picture.
    Block(ContentBlock),
    /// A call; only the model makes any.
    Call(ToolUse),
    /// The answer to a call; the first parts of the message after it.
    Result(ToolResult),
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its role.
    pub role: Role,
    /// Its parts, never none.
    pub parts: Vec<MessagePart>,
}

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// System texts that precede it.
    pub system: Vec<String>,
    /// The turns.
    pub turns: Vec<Message>,
}

impl Messages {
    fn push(&mut self, role: Role, part: MessagePart) {
        if self.turns.is_empty() && role == Role::Assistant {
            self.push(Role::User, MessagePart::Block(ContentBlock::Text(OPENING.to_owned())));
        }
        match self.turns.last_mut() {
            Some(last) if last.role == role => last.parts.push(part),
            _ => self.turns.push(Message { role, parts: vec![part] }),
        }
    }
}

/// The conversation that units make.
#[must_use]
pub(super) fn messages(units: &[Unit]) -> Messages {
    let mut made = Messages::default();
    for one in units.iter().flat_map(|unit| &unit.said) {
        match &one.speech {
            Speech::System(blocks) => {
                for text in blocks.iter().filter_map(words) {
                    if made.turns.is_empty() {
                        made.system.push(text.to_owned());
                    } else {
                        let text = format!("System note: {text}");
                        made.push(Role::User, MessagePart::Block(ContentBlock::Text(text)));
                    }
                }
            }
            Speech::User(blocks) => {
                for block in blocks {
                    made.push(Role::User, MessagePart::Block(block.clone()));
                }
            }
            Speech::Assistant(blocks) => {
                // A model makes no pictures here, and ends with a word.
                for text in blocks.iter().filter_map(words) {
                    let text = ContentBlock::Text(text.trim_end().to_owned());
                    made.push(Role::Assistant, MessagePart::Block(text));
                }
            }
            Speech::Call(call) => made.push(Role::Assistant, MessagePart::Call(call.clone())),
            Speech::Result(result) => made.push(Role::User, MessagePart::Result(result.clone())),
            Speech::Summary(text, _) => {
                let text = format!("Summary of what came before{ELLIPSIS}\n{text}");
                made.push(Role::User, MessagePart::Block(ContentBlock::Text(text)));
            }
            Speech::Nothing => {}
        }
    }
    made
}

fn words(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(text),
        ContentBlock::Image(_) => None,
    }
}
