//! A tool derived from a verb: its arguments and its answer have the names of tools, and the
//! session may be omitted. The verb is defined in this file: it returns its arguments.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sessionlog::{
    access::Principal,
    event::SessionId,
    service::{NewSession, ServiceError, ServiceResult},
    verbs::{
        BodyUse, OwnerInfo, RequiredGrant, Route, Serve, SessionPath, Verb, VerbCall,
        tools::{Tool, ToolCall, Toolset},
    },
};

use super::desk::Desk;

struct Echo;

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct EchoQuery {
    /// How many
    rows_max: Option<usize>,
    #[serde(rename = "row_types[]")]
    row_types: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct EchoBody {
    inner_part: Part,
    #[serde(default)]
    free_form: Map<String, Value>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Part {
    first_word: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct EchoAnswer {
    of_session: String,
    rows_max: Option<usize>,
    row_types: Vec<String>,
    all_parts: Vec<Part>,
    free_form: Map<String, Value>,
    token: Option<u64>,
}

impl Verb for Echo {
    const ROUTE: Route = Route::post("/v1/sessions/{session}/echo", "echo", RequiredGrant::WRITE);
    const TAG: &'static str = "sessions";
    const ABOUT: &'static str = "Answers what it was asked.";
    const ASKS: BodyUse = BodyUse::Body("Anything");
    const ANSWERS: &'static str = "The same";
    const TOOL: Option<Tool> = Some(Tool::for_verb::<Self>("echo", "Echo", Toolset::Memory));
    type Params = SessionPath;
    type Query = EchoQuery;
    type Body = EchoBody;
    type Answer = EchoAnswer;
}

impl Serve for Echo {
    async fn serve(call: VerbCall<'_, Self>) -> ServiceResult<EchoAnswer> {
        let VerbCall { params, query, body, caller, .. } = call;
        if query.rows_max == Some(0) {
            return Err(ServiceError::invalid("rows_max", "at least 1"));
        }
        Ok(EchoAnswer {
            of_session: params.session.to_string(),
            rows_max: query.rows_max,
            row_types: query.row_types,
            all_parts: vec![body.inner_part],
            free_form: body.free_form,
            token: caller.fence.map(|fence| fence.0),
        })
    }
}

static TOOL: LazyLock<Tool> = LazyLock::new(|| Echo::TOOL.unwrap());

async fn call(desk: &Desk, arguments: Value) -> Result<Value, ServiceError> {
    let (owner, who) = (&OwnerInfo::default(), &Principal::local());
    let (service, caller, via) = (&desk.service, &desk.caller, &desk.via);
    let call = ToolCall { service, owner, caller, who, via, key: None };
    let answer = TOOL.serve(call, arguments.to_string()).await?;
    Ok(serde_json::from_str(&answer).unwrap())
}

async fn desk() -> Desk {
    let desk = Desk::model();
    let new = NewSession { id: SessionId::new("mine").ok(), ..NewSession::default() };
    desk.service.create_session(&desk.caller, new).await.unwrap();
    desk
}

#[test]
fn a_derived_tools_schemas_use_the_names_of_tools() {
    let input = Value::Object(TOOL.input_schema());
    let names: Vec<&String> = input["properties"].as_object().unwrap().keys().collect();
    let expected = ["sessionId", "rowsMax", "rowTypes", "innerPart", "freeForm", "fencingToken"];
    assert_eq!(names, expected);
    assert_eq!(input["required"], json!(["innerPart"]));
    assert_eq!(input["additionalProperties"], json!(false));
    let part = &input["properties"]["innerPart"]["properties"];
    assert_eq!(part["firstWord"]["type"], "string");
    let output = Value::Object(TOOL.output_schema());
    assert_eq!(output["type"], "object");
    let word = "/properties/allParts/items/properties/firstWord/type";
    assert_eq!(output.pointer(word), Some(&json!("string")), "{output}");
    assert!(output["properties"].get("boundBy").is_some());
    assert!(!TOOL.is_read_only() && !TOOL.repeatable);
}

#[tokio::test]
async fn a_derived_tool_takes_and_returns_camel_case_names() {
    let desk = desk().await;
    let given = json!({
        "sessionId": "mine", "rowsMax": 3, "rowTypes": ["a.b"], "fencingToken": 7,
        "innerPart": {"firstWord": "w"}, "freeForm": {"own_name": {"first_word": null}},
    });
    let answer = call(&desk, given).await.unwrap();
    let expected = json!({
        "sessionId": "mine", "boundBy": "argument", "ofSession": "mine", "rowsMax": 3,
        "rowTypes": ["a.b"], "allParts": [{"firstWord": "w"}],
        "freeForm": {"own_name": {"first_word": null}}, "token": 7,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(answer[name], *value, "{name}: {answer}");
    }
    assert!(answer["trust"].is_string() && answer["notice"].is_string());
    // The session that it used is bound now; an absent member is omitted.
    let answer = call(&desk, json!({"innerPart": {}})).await.unwrap();
    assert_eq!(answer["sessionId"], "mine");
    assert_eq!(answer["boundBy"], "connection");
    assert_eq!(answer["allParts"], json!([{}]));
    assert!(answer.get("rowsMax").is_none() && answer.get("token").is_none(), "{answer}");
}

#[tokio::test]
async fn an_invalid_argument_is_rejected_under_its_tool_name() {
    let desk = desk().await;
    let part = json!({"firstWord": "w"});
    for (given, field) in [
        (json!({"sessionId": "mine"}), "innerPart"),
        (json!({"sessionId": "mine", "innerPart": 7}), "innerPart"),
        (json!({"sessionId": "mine", "innerPart": part, "rowsMax": "x"}), "rowsMax"),
        (json!({"sessionId": "mine", "innerPart": part, "rowsMax": 0}), "rowsMax"),
        (json!({"sessionId": "mine", "innerPart": part, "rows_max": 1}), "rows_max"),
        (json!({"sessionId": "mine", "innerPart": part, "other": 1}), "other"),
        (json!({"sessionId": "../x", "innerPart": part}), "sessionId"),
        (json!({"sessionId": 7, "innerPart": part}), "sessionId"),
        (json!({"sessionId": "mine", "innerPart": part, "fencingToken": "x"}), "fencingToken"),
        (json!([]), "arguments"),
    ] {
        let error = call(&desk, given.clone()).await.unwrap_err();
        assert_eq!(error.hint.field.as_deref(), Some(field), "{given}");
    }
    let error = call(&desk, json!({"innerPart": part})).await.unwrap_err();
    assert_eq!(error.code.as_str(), "session_required");
}
