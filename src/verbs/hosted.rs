//! Verbs of the Managed Agents API for what a hosted session has besides events: threads and
//! resources. A stored session is one thread, and nothing is mounted in it; over HTTP each has a
//! handler of its own. They must not derive a thread from an event.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Media, NoQuery, RequiredGrant, Route, SessionPath, ThreadPath, Verb, Visit};
use crate::{
    api::{
        events::EventsAnswer,
        hosted::{ResourceList, Thread, ThreadList},
    },
    wire::SSE,
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_custom_verb::<ListThreads>();
    visit.visit_custom_verb::<GetThread>();
    visit.visit_custom_verb::<ArchiveThread>();
    visit.visit_custom_verb::<ThreadEvents>();
    visit.visit_custom_verb::<FollowThread>();
    visit.visit_custom_verb::<ListResources>();
    visit.visit_custom_verb::<AddResource>();
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadsQuery {
    /// Only threads of these statuses
    #[serde(rename = "statuses[]")]
    pub statuses: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ThreadEventsQuery {
    /// Maximum number of events: 1 000 by default, 10 000 at most
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<usize>,
    /// next_page of the previous answer
    pub page: Option<String>,
}

/// Declares verbs from the rows of a table.
macro_rules! declare_verbs {
    ($($verb:ident: $method:ident $path:literal, $id:literal, $need:ident, $tag:literal;
        $about:literal, $answers:literal, $gives:expr;
        $params:ty, $query:ty => $answer:ty)*) => {$(
        pub struct $verb;

        impl Verb for $verb {
            const ROUTE: Route =
                Route::$method(concat!("/v1/sessions/{session}", $path), $id, RequiredGrant::$need);
            const TAG: &'static str = $tag;
            const ABOUT: &'static str = $about;
            const ANSWERS: &'static str = $answers;
            const GIVES: &'static [Media] = &[$gives];
            type Params = $params;
            type Query = $query;
            type Body = ();
            type Answer = $answer;
        }
    )*};
}

declare_verbs! {
    ListThreads: get "/threads", "listThreads", READ, "sessions";
        "Threads of a session: its own.", "The session's own thread", Media::Json;
        SessionPath, ThreadsQuery => ThreadList
    GetThread: get "/threads/{name}", "getThread", READ, "sessions";
        "A thread of a session.", "The thread", Media::Json;
        ThreadPath, NoQuery => Thread
    ArchiveThread: post "/threads/{name}/archive", "archiveThread", WRITE, "sessions";
        "Refused: the session's own thread ends with its session.", "Never", Media::Json;
        ThreadPath, NoQuery => Thread
    ThreadEvents: get "/threads/{name}/events", "getThreadEvents", READ, "events";
        "Events of a thread: those of the session.", "As getEvents answers", Media::Json;
        ThreadPath, ThreadEventsQuery => EventsAnswer
    FollowThread: get "/threads/{name}/stream", "streamThread", READ, "events";
        "A thread as it grows: the session's events.", "As streamEvents answers", Media::Text(SSE);
        ThreadPath, NoQuery => String
    ListResources: get "/resources", "listResources", READ, "sessions";
        "Resources of a session: none.", "None", Media::Json;
        SessionPath, NoQuery => ResourceList
    AddResource: post "/resources", "addResource", WRITE, "sessions";
        "Refused: nothing is mounted in a stored session.", "Never", Media::Json;
        SessionPath, NoQuery => ResourceList
}
