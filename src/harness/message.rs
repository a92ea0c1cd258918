//! Converts units to a strict conversation, which every model's API accepts: roles alternate, the
//! user begins, the message after a call begins with its result, and no message is empty. It must
//! not leave anything out: the window has chosen.

use super::{
    conversation_event::{ContentBlock, Speech, ToolResult, ToolUse},
    unit::Unit,
};
use crate::event::text::ELLIPSIS;

/// First message of a conversation whose beginning is left out.
const OPENING: &str = "(What came before is not shown.)";

/// Role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user, or a tool.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagePart {
    /// Text or an image.
    Block(ContentBlock),
    /// A call of a tool by the model.
    Call(ToolUse),
    /// The result of a call, at the beginning of the message after it.
    Result(ToolResult),
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Role of its author.
    pub role: Role,
    /// Parts; at least one.
    pub parts: Vec<MessagePart>,
}

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// System texts before the turns.
    pub system: Vec<String>,
    /// Turns in order.
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

/// Converts units to a conversation.
#[must_use]
pub(super) fn build_messages(units: &[Unit]) -> Messages {
    let mut made = Messages::default();
    for one in units.iter().flat_map(|unit| &unit.said) {
        match &one.speech {
            Speech::System(blocks) => {
                for text in blocks.iter().filter_map(block_text) {
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
                // A model's message has no image and no trailing white space.
                for text in blocks.iter().filter_map(block_text) {
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

fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(text),
        ContentBlock::Image(_) => None,
    }
}
