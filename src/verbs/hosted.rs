//! Verbs of the Managed Agents wire about what a hosted session has beside its events: threads and
//! resources. A stored session is one thread, and nothing is mounted in it; over HTTP each has a
//! handler of its own. They must not make a thread of what an event says.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InSession, InThread, Media, Need, NoQuery, Route, Verb, Visit};
use crate::{
    api::{
        events::EventsAnswer,
        hosted::{ResourceList, Thread, ThreadList},
    },
    wire::SSE,
};

pub(super) fn each(visit: &mut impl Visit) {
    visit.by_hand::<ListThreads>();
    visit.by_hand::<GetThread>();
    visit.by_hand::<ArchiveThread>();
    visit.by_hand::<ThreadEvents>();
    visit.by_hand::<FollowThread>();
    visit.by_hand::<ListResources>();
    visit.by_hand::<AddResource>();
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadsQuery {
    /// Only of these statuses
    #[serde(rename = "statuses[]")]
    pub statuses: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadEventsQuery {
    /// Events at most: 1 000 by default, 10 000 at most
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<usize>,
    /// next_page of the answer before
    pub page: Option<String>,
}

/// Declares verbs that differ in what the table says.
macro_rules! declared {
    ($($verb:ident: $method:ident $path:literal, $id:literal, $need:ident, $tag:literal;
        $about:literal, $answers:literal, $gives:expr;
        $place:ty, $query:ty => $answer:ty)*) => {$(
        pub struct $verb;

        impl Verb for $verb {
            const ROUTE: Route =
                Route::$method(concat!("/v1/sessions/{session}", $path), $id, Need::$need);
            const TAG: &'static str = $tag;
            const ABOUT: &'static str = $about;
            const ANSWERS: &'static str = $answers;
            const GIVES: &'static [Media] = &[$gives];
            type Params = $place;
            type Query = $query;
            type Body = ();
            type Answer = $answer;
        }
    )*};
}

declared! {
    ListThreads: get "/threads", "listThreads", READ, "sessions";
        "Threads of a session: its own.", "The session's own thread", Media::Json;
        InSession, ThreadsQuery => ThreadList
    GetThread: get "/threads/{name}", "getThread", READ, "sessions";
        "A thread of a session.", "The thread", Media::Json;
        InThread, NoQuery => Thread
    ArchiveThread: post "/threads/{name}/archive", "archiveThread", WRITE, "sessions";
        "Refused: the session's own thread ends with its session.", "Never", Media::Json;
        InThread, NoQuery => Thread
    ThreadEvents: get "/threads/{name}/events", "getThreadEvents", READ, "events";
        "Events of a thread: those of the session.", "As getEvents answers", Media::Json;
        InThread, ThreadEventsQuery => EventsAnswer
    FollowThread: get "/threads/{name}/stream", "streamThread", READ, "events";
        "A thread as it grows: the session's events.", "As streamEvents answers", Media::Text(SSE);
        InThread, NoQuery => String
    ListResources: get "/resources", "listResources", READ, "sessions";
        "Resources of a session: none.", "None", Media::Json;
        InSession, NoQuery => ResourceList
    AddResource: post "/resources", "addResource", WRITE, "sessions";
        "Refused: nothing is mounted in a stored session.", "Never", Media::Json;
        InSession, NoQuery => ResourceList
}
