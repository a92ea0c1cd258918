//! The verbs on the lifetime of sessions. They must not decide when one expires.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NoParams, NoQuery, RequiredGrant, Route, Serve, SessionPath, Verb, VerbCall, Visit};
use crate::{
    api::{
        retention::{Restored, RetentionAnswer},
        sessions::Session,
    },
    service::ServiceResult,
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<Hold>();
    visit.visit_verb::<Release>();
    visit.visit_verb::<Restore>();
    visit.visit_verb::<GetRetention>();
    visit.visit_verb::<Sweep>();
}

pub struct Hold;

impl Verb for Hold {
    const ROUTE: Route =
        Route::put("/v1/sessions/{session}/hold", "holdSession", RequiredGrant::ADMIN);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "Holds a session: it neither expires nor is deleted until the hold is released.";
    const ANSWERS: &'static str = "The session, held";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Session;
}

impl Serve for Hold {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        call.service.hold_session(&call.caller, &call.params.session, true).await
    }
}

pub struct Release;

impl Verb for Release {
    const ROUTE: Route =
        Route::delete("/v1/sessions/{session}/hold", "releaseSession", RequiredGrant::ADMIN);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Releases a hold: the session's idle time begins anew.";
    const ANSWERS: &'static str = "The session, not held";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Session;
}

impl Serve for Release {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Session> {
        call.service.hold_session(&call.caller, &call.params.session, false).await
    }
}

pub struct Restore;

impl Verb for Restore {
    const ROUTE: Route =
        Route::post("/v1/sessions/{session}/restore", "restoreSession", RequiredGrant::ADMIN);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str =
        "Brings an expired session back, or one that was deleted and whose grace has not ended.";
    const ANSWERS: &'static str = "The restored session";
    type Params = SessionPath;
    type Query = NoQuery;
    type Body = ();
    type Answer = Restored;
}

impl Serve for Restore {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<Restored> {
        call.service.undelete_session(&call.caller, &call.params.session).await
    }
}

pub struct GetRetention;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetentionQuery {
    /// Maximum number of sessions: 100 by default, 1 000 at most
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
}

impl Verb for GetRetention {
    const ROUTE: Route = Route::get("/v1/admin/retention", "getRetention", RequiredGrant::ADMIN);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str =
        "Idle sessions that will expire, with time and reason. Changes nothing.";
    const ANSWERS: &'static str = "Sessions that will expire, the soonest first";
    type Params = NoParams;
    type Query = RetentionQuery;
    type Body = ();
    type Answer = RetentionAnswer;
}

impl Serve for GetRetention {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<RetentionAnswer> {
        call.service.retention(&call.caller, call.query.limit).await
    }
}

pub struct Sweep;

impl Verb for Sweep {
    const ROUTE: Route = Route::post("/v1/admin/retention", "sweepRetention", RequiredGrant::ADMIN);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Expires the sessions that are due, and removes the files of \
                                 those whose grace has ended.";
    const ANSWERS: &'static str = "The changes made, and those that are due next";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = RetentionAnswer;
}

impl Serve for Sweep {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<RetentionAnswer> {
        call.service.sweep_all(&call.caller, None).await
    }
}
