//! The verbs of operators, and of front ends that look for the owner of a data directory. They must
//! not decide which losses are accepted.

#![allow(missing_docs, reason = "ABOUT says what a verb does")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BodyUse, JsonText, Media, NoParams, NoQuery, RequiredGrant, Route, Serve, Verb, VerbCall,
    Visit,
    events::EventsQuery,
    tools::{self, Tool},
};
use crate::{
    access::Grant,
    api::{admin, events},
    service::{self, ChainReceipt, Code, Health, ServiceError, ServiceResult, parse_session_id},
    wire::{BACKUP, answer},
};

pub(super) fn visit_all(visit: &mut impl Visit) {
    visit.visit_verb::<GetOwner>();
    visit.visit_verb::<StepDown>();
    visit.visit_verb::<Verify>();
    visit.visit_verb::<Repair>();
    visit.visit_verb::<GetKeys>();
    visit.visit_verb::<RotateKeys>();
    visit.visit_verb::<GetAuditLog>();
    visit.visit_verb::<GetRecoveryReport>();
    visit.visit_custom_verb::<CreateBackup>();
    visit.visit_verb::<GetIndex>();
    visit.visit_verb::<GetHealth>();
    visit.visit_verb::<GetReadiness>();
    visit.visit_custom_verb::<GetMetrics>();
    visit.visit_custom_verb::<GetOpenapi>();
}

pub struct GetOwner;

impl Verb for GetOwner {
    const ROUTE: Route = Route::get("/v1/admin/owner", "getOwner", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "The process that owns the data directory.";
    const ANSWERS: &'static str = "The owner";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::Owner;
}

impl Serve for GetOwner {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::Owner> {
        Ok(admin::Owner { shared: call.service.shared(), ..call.owner.about.clone() })
    }
}

pub struct StepDown;

impl Verb for StepDown {
    const ROUTE: Route = Route::post("/v1/admin/step-down", "stepDown", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Asks an on-demand owner to finish its requests and exit, so that another process can \
         own the directory.";
    const STATUS: u16 = 202;
    const INVALID_STATUS: Option<u16> = Some(409);
    const ANSWERS: &'static str = "The owner finishes its requests and exits";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::Owner;
}

impl Serve for StepDown {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::Owner> {
        if !call.owner.about.on_demand {
            return Err(ServiceError::invalid("owner", "it was started by a person and stays")
                .action("stop that server, or talk to it instead"));
        }
        tracing::info!("asked to step down");
        call.owner.step_down.cancel();
        Ok(call.owner.about.clone())
    }
}

pub struct Verify;

impl Verb for Verify {
    const ROUTE: Route = Route::post("/v1/admin/verify", "verify", RequiredGrant::ADMIN);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Reads every frame of one session, or of all, and checks \
                                 checksums and chains; with a receipt that was kept elsewhere \
                                 also that no event it covers is missing. All are those of the \
                                 caller, or of every tenant where the credential has the scope \
                                 `operator`, as has the user of this machine.";
    const ASKS: BodyUse = BodyUse::Maybe("The session; all if omitted");
    const ANSWERS: &'static str = "The amounts read, and the damage found";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = admin::VerifyRequest;
    type Answer = admin::VerifyAnswer;
}

impl Serve for Verify {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::VerifyAnswer> {
        let VerbCall { service, caller, who, body, .. } = call;
        let session = body.session.as_deref().map(parse_session_id).transpose()?;
        let Some(text) = body.expect_head else {
            return match session.as_ref() {
                None if who.require(&[Grant::Operator]).is_ok() => {
                    service.verify_store(&caller).await
                }
                session => service.verify(&caller, session).await,
            };
        };
        let wrong = |problem| ServiceError::invalid("expect_head", problem);
        let expected = ChainReceipt::parse(&text).ok_or_else(|| {
            wrong("POSITION:CHAIN of a receipt is expected, the chain 64 hex digits")
        })?;
        let session = session.ok_or_else(|| wrong("a receipt is of one session: name it"))?;
        service.verify_head(&caller, &session, expected).await
    }
}

pub struct Repair;

impl Verb for Repair {
    const ROUTE: Route = Route::post("/v1/admin/repair", "repair", RequiredGrant::ADMIN);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Returns what is lost of a session, or of the store where no \
                                 session is named. With accept_loss the loss is accepted: it \
                                 stays a permanent gap.";
    const ASKS: BodyUse =
        BodyUse::Body("The session to repair, or the store; and whether to accept the loss");
    const ANSWERS: &'static str = "The losses, and whether they were accepted";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = admin::RepairRequest;
    type Answer = admin::RepairAnswer;
}

impl Serve for Repair {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::RepairAnswer> {
        let asked = call.body;
        let session = asked.session.as_deref().map(parse_session_id).transpose()?;
        if session.is_some() == asked.store {
            return Err(ServiceError::invalid("session", "name a session, or say store: true"));
        }
        if asked.store {
            call.who.require(&[Grant::Operator])?;
        }
        call.service.repair(&call.caller, session.as_ref(), asked.accept_loss).await
    }
}

pub struct GetAuditLog;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AuditQuery {
    /// Point of the first event; 0 by default
    pub from: Option<String>,
    /// Point after the last event; the tail by default
    pub to: Option<String>,
    /// Maximum number of events: 1 000 by default, 10 000 at most
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<usize>,
    /// Order: asc, or desc for the newest first
    pub order: Option<String>,
    /// Only events of these types
    #[serde(rename = "types[]")]
    #[schemars(length(max = 100))]
    pub types: Vec<String>,
    /// Only events processed at or after this time; also gt, lt, lte
    #[serde(rename = "created_at[gte]")]
    pub created_gte: Option<String>,
    #[serde(rename = "created_at[gt]")]
    #[schemars(skip)]
    pub created_gt: Option<String>,
    #[serde(rename = "created_at[lte]")]
    #[schemars(skip)]
    pub created_lte: Option<String>,
    #[serde(rename = "created_at[lt]")]
    #[schemars(skip)]
    pub created_lt: Option<String>,
    /// next_page of the previous answer
    pub page: Option<String>,
}

impl Verb for GetAuditLog {
    const ROUTE: Route = Route::get("/v1/admin/audit", "getAudit", RequiredGrant::ADMIN);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "The tenant's audit log, in order: changes of access, deletions, \
                                 refusals. No client writes to it.";
    const ANSWERS: &'static str = "The events, the next page, and the tail";
    type Params = NoParams;
    type Query = AuditQuery;
    type Body = ();
    type Answer = JsonText<events::EventsAnswer>;
}

impl Serve for GetAuditLog {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<JsonText<events::EventsAnswer>> {
        let asked = call.query;
        let query = EventsQuery {
            from: asked.from,
            to: asked.to,
            limit: asked.limit,
            order: asked.order,
            types: asked.types,
            created_gte: asked.created_gte,
            created_gt: asked.created_gt,
            created_lte: asked.created_lte,
            created_lt: asked.created_lt,
            page: asked.page,
            ..EventsQuery::default()
        };
        let query = query.parse()?;
        let slice = call.service.audit_log(&call.caller, &query).await?;
        Ok(JsonText::new(answer::format_slice(&slice)))
    }
}

pub struct GetKeys;

impl Verb for GetKeys {
    const ROUTE: Route = Route::get("/v1/admin/keys", "getKeys", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str =
        "Master keys that the data directory needs, and those that the server has.";
    const ANSWERS: &'static str = "Ids of master keys, and numbers of session keys";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::KeysAnswer;
}

impl Serve for GetKeys {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::KeysAnswer> {
        call.service.keys().await
    }
}

pub struct RotateKeys;

impl Verb for RotateKeys {
    const ROUTE: Route =
        Route::post("/v1/admin/keys/rotate", "rotateKeys", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Wraps some session keys with the current master key of the \
                                 server. Repeat the call until `behind` is 0: then the previous \
                                 master key is not needed.";
    const ANSWERS: &'static str = "Ids of master keys, and numbers of session keys";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::KeysAnswer;
}

impl Serve for RotateKeys {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::KeysAnswer> {
        call.service.rotate_keys().await
    }
}

pub struct GetRecoveryReport;

impl Verb for GetRecoveryReport {
    const ROUTE: Route =
        Route::get("/v1/admin/recovery-report", "getRecoveryReport", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Findings and actions of the last start.";
    const ANSWERS: &'static str = "The report of the last start";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::RecoveryReport;
}

impl Serve for GetRecoveryReport {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::RecoveryReport> {
        Ok(call.service.recovery_report())
    }
}

pub struct CreateBackup;

impl Verb for CreateBackup {
    const ROUTE: Route = Route::post("/v1/admin/backup", "createBackup", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str =
        "A consistent copy of the whole store, of all tenants, made while others write.";
    const ANSWERS: &'static str = "Lines of JSON (BackupLine), each `part` followed by the bytes it announces; the last line \
         is `complete` or `failed`, and an answer without one was cut. `sessionlog backup create` \
         reads it";
    const GIVES: &'static [Media] = &[Media::Text(BACKUP)];
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = String;
}

pub struct GetIndex;

impl Verb for GetIndex {
    const ROUTE: Route = Route::get("/", "getIndex", RequiredGrant::Nothing);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Index of this server: its routes, a line each. A client that \
                                 accepts text/html, as browsers do, gets the web page.";
    const ANSWERS: &'static str = "The routes, or the page";
    const GIVES: &'static [Media] = &[Media::Json, Media::Text("text/html")];
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::Index;
}

impl Serve for GetIndex {
    async fn serve(_: VerbCall<'_, Self>) -> ServiceResult<admin::Index> {
        let mut lines = RouteLines(Vec::new());
        super::visit_all(&mut lines);
        Ok(admin::Index {
            name: "sessionlog".to_owned(),
            openapi: GetOpenapi::ROUTE.path.to_owned(),
            mcp: tools::MCP.path.to_owned(),
            routes: lines.0,
        })
    }
}

/// Collects a line for each route.
struct RouteLines(Vec<String>);

impl Visit for RouteLines {
    fn visit_verb<V: Serve>(&mut self) {
        self.visit_custom_verb::<V>();
    }

    fn visit_custom_verb<V: Verb>(&mut self) {
        let Route { method, path, .. } = V::ROUTE;
        let about = V::ABOUT.split_inclusive(". ").next().unwrap_or_default().trim();
        self.0.push(format!("{} {path}: {about}", method.as_str().unwrap_or("ANY")));
    }

    fn visit_tool(&mut self, _: Tool) {}
}

pub struct GetHealth;

impl Verb for GetHealth {
    const ROUTE: Route = Route::get("/healthz", "getHealth", RequiredGrant::Nothing);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Liveness: answers while the process runs.";
    const ANSWERS: &'static str = "The process answers";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::Condition;
}

impl Serve for GetHealth {
    async fn serve(_: VerbCall<'_, Self>) -> ServiceResult<admin::Condition> {
        Ok(admin::Condition { status: "ok".to_owned() })
    }
}

pub struct GetReadiness;

impl Verb for GetReadiness {
    const ROUTE: Route = Route::get("/readyz", "getReadiness", RequiredGrant::Nothing);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Readiness of the store to read and write.";
    const ANSWERS: &'static str = "The store reads and writes";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = admin::Condition;
}

impl Serve for GetReadiness {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<admin::Condition> {
        let read_only = |message| ServiceError::new(Code::StoreReadOnly, message);
        Err(match call.service.health() {
            Health::Ready => return Ok(admin::Condition { status: "ready".to_owned() }),
            Health::ReadOnly(reason) => read_only(format!("the store is read-only: {reason}"))
                .action("reading works; look at the storage, then restart"),
            Health::Full(short) => service::disk_full_error(short),
            Health::Silent(silence) => {
                let seconds = silence.as_secs();
                let mut error = read_only(format!(
                    "the storage has not answered for {seconds} s; appends wait"
                ));
                error.hint.retryable = true;
                error.action("reading works; look at the storage")
            }
        })
    }
}

pub struct GetMetrics;

impl Verb for GetMetrics {
    const ROUTE: Route = Route::get("/metrics", "getMetrics", RequiredGrant::OPERATOR);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "Counts in the Prometheus text format.";
    const ANSWERS: &'static str = "Counts since the process started";
    const GIVES: &'static [Media] = &[Media::Text("text/plain")];
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = String;
}

pub struct GetOpenapi;

impl Verb for GetOpenapi {
    const ROUTE: Route = Route::get("/openapi.json", "getOpenapi", RequiredGrant::Credential);
    const TAG: &'static str = "operations";
    const ABOUT: &'static str = "This description of the API.";
    const ANSWERS: &'static str = "An OpenAPI 3.1 document";
    type Params = NoParams;
    type Query = NoQuery;
    type Body = ();
    type Answer = serde_json::Value;
}
