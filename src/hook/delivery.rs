//! The events that one hook's event records, in the form that is sent and spooled. It must not send
//! or write them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::Timestamp;

/// The events and the checkpoint recorded for one event of an agent's program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    pub(super) session: String,
    /// Metadata of the session that this event may create; `None` for an event that ends
    /// a session, which creates none.
    pub(super) about: Option<SessionHead>,
    /// The events, each with an id.
    pub(super) events: Vec<Value>,
    /// A checkpoint after the events.
    pub(super) mark: Option<DeliveryMark>,
    /// Error for which it was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<String>,
}

/// Metadata of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionHead {
    pub(super) workspace: Option<String>,
    pub(super) client: String,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DeliveryMark {
    pub(super) label: String,
    /// True if the work is done.
    pub(super) done: bool,
}

impl Delivery {
    /// Returns the id of the last event, which identifies the delivery.
    pub(super) fn id(&self) -> &str {
        let id = self.events.last().and_then(|event| event.get("id"));
        id.and_then(Value::as_str).unwrap_or("none")
    }

    /// Returns the time of the last event.
    pub(super) fn time(&self) -> Option<Timestamp> {
        Timestamp::parse(self.events.last()?.get("created_at")?.as_str()?)
    }

    /// Returns true if it ends the session.
    pub(super) fn is_end(&self) -> bool {
        self.about.is_none()
    }

    /// Adds the names of the parent processes to the event of a start.
    pub(super) fn add_process_names(&mut self, process: &[String]) {
        let start = self.events.last_mut().and_then(Value::as_object_mut);
        let start = start.filter(|_| !process.is_empty());
        start.map(|start| start.insert("process".to_owned(), json!(process)));
    }

    /// Inserts an event before the others, once.
    pub(super) fn prepend_event(&mut self, event: Option<Value>) {
        let Some(event) = event else { return };
        if self.events.first().and_then(|first| first.get("id")) != event.get("id") {
            self.events.insert(0, event);
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON alone")
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
