//! The one handler of every verb that is declared: reads its place, query and body, serves it,
//! writes its answer; and its operation in the published description. It must not know a verb.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest as _, FromRequestParts as _, RawPathParams, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use utoipa::{
    IntoParams as _, IntoResponses as _, PartialSchema, ToSchema,
    openapi::{
        Content, Paths, Ref, RefOr, Required, ResponseBuilder, Schema,
        path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem},
        request_body::RequestBodyBuilder,
        schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type},
    },
};
use utoipa_axum::router::UtoipaMethodRouter;

use super::{
    Door, Shared,
    body::{Conditions, JsonBody, Who},
    describe::Refusals,
    gate::Asking,
    params::Params,
    refuse::Refusal,
};
use crate::verbs::{Asks, Call, Fencing, Method, Place as _, Serve, Verb, keyed};

/// The handler of a verb and its description.
pub(super) fn route<V: Serve>() -> UtoipaMethodRouter<Arc<Door>> {
    let (filter, method) = match V::ROUTE.method {
        Method::Get => (MethodFilter::GET, HttpMethod::Get),
        Method::Post => (MethodFilter::POST, HttpMethod::Post),
        Method::Put => (MethodFilter::PUT, HttpMethod::Put),
        Method::Delete => (MethodFilter::DELETE, HttpMethod::Delete),
        Method::Any => unreachable!("a verb has a method"),
    };
    let mut schemas = Vec::new();
    let mut paths = Paths::new();
    let operation = operation::<V>(&mut schemas);
    paths.paths.insert(V::ROUTE.path.to_owned(), PathItem::new(method, operation));
    let handler: MethodRouter<Arc<Door>> = on(filter, handle::<V>);
    (schemas, paths, handler)
}

async fn handle<V: Serve>(State(door): Shared, request: Request) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let Who(caller) = Who::from_request_parts(&mut parts, &door).await?;
    let Asking(who) = Asking::from_request_parts(&mut parts, &door).await?;
    let place = RawPathParams::from_request_parts(&mut parts, &door).await;
    let place = place.map_err(|_| Refusal::invalid(first(V::ROUTE.path), "it is not UTF-8"))?;
    let place: Vec<(String, String)> =
        place.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let place = V::Place::read(&place)?;
    let Params(query) = Params::<V::Query>::from_request_parts(&mut parts, &door).await?;
    let key = match V::KEY {
        Some(_) => Conditions::from_request_parts(&mut parts, &door).await?.key,
        None => None,
    };
    let JsonBody(body, _room) = match V::ASKS {
        Asks::Nothing => {
            let body = serde_json::from_str("null").expect("the body of such a verb is ()");
            JsonBody(body, None)
        }
        Asks::Maybe(_) | Asks::Body(_) => {
            JsonBody::from_request(Request::from_parts(parts, body), &door).await?
        }
    };
    let key = key.map(|key| keyed::<V>(key, &place, &query, &body));
    let held = match V::answer_bytes(&query) {
        Some(bytes) => Some(door.room.ask(bytes).await?),
        None => None,
    };
    let (service, owner) = (&door.app.service, &door.app.owner);
    let call = Call::<V> { service, owner, caller, who: &who, key, place, query, body };
    let refused = |error| Refusal::from(error).of_invalid(V::INVALID_STATUS);
    let answer = V::serve(call).await.map_err(refused)?;
    let text = serde_json::to_vec(&answer).expect("an answer is JSON and memory takes it");
    let text = match held {
        Some(held) => held.answer(text),
        None => Bytes::from(text),
    };
    let status = StatusCode::from_u16(V::STATUS).expect("a declared status is one");
    Ok((status, [(CONTENT_TYPE, "application/json")], text).into_response())
}

/// The name of a path's first parameter.
fn first(path: &'static str) -> &'static str {
    let name = path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    name.map_or("path", |(name, _)| name)
}

type Schemas = Vec<(String, RefOr<Schema>)>;

fn operation<V: Verb>(schemas: &mut Schemas) -> OperationBuilder {
    let mut parameters = V::Place::into_params(|| Some(ParameterIn::Path));
    parameters.extend(V::Query::into_params(|| Some(ParameterIn::Query)));
    for parameter in &mut parameters {
        // A parameter that may be left out is never null: a query has no such value.
        not_null(parameter);
    }
    parameters.extend(fencing_token(V::FENCE));
    parameters.extend(V::KEY.map(idempotency_key));
    let mut operation = OperationBuilder::new()
        .tag(V::TAG)
        .summary(Some(V::ABOUT))
        .operation_id(Some(V::ROUTE.id))
        .parameters((!parameters.is_empty()).then_some(parameters));
    let content = |schema: RefOr<Schema>| Content::new(Some(schema));
    let asked = match V::ASKS {
        Asks::Nothing => None,
        Asks::Maybe(about) => {
            let nothing = ObjectBuilder::new().schema_type(Type::Null);
            let maybe = OneOfBuilder::new().item(named::<V::Body>(schemas)).item(nothing);
            Some((about, RefOr::T(Schema::from(maybe)), None))
        }
        Asks::Body(about) => Some((about, named::<V::Body>(schemas), Some(Required::True))),
    };
    if let Some((about, schema, required)) = asked {
        let body = RequestBodyBuilder::new().description(Some(about)).required(required);
        let body = body.content("application/json", content(schema));
        operation = operation.request_body(Some(body.build()));
    }
    let answer = ResponseBuilder::new()
        .description(V::ANSWERS)
        .content("application/json", content(named::<V::Answer>(schemas)));
    operation = operation.response(V::STATUS.to_string(), answer.build());
    Refusals::responses()
        .into_iter()
        .fold(operation, |operation, (status, refusal)| operation.response(status, refusal))
}

fn not_null(parameter: &mut Parameter) {
    let schema_type = match &mut parameter.schema {
        Some(RefOr::T(Schema::Object(object))) => &mut object.schema_type,
        Some(RefOr::T(Schema::Array(array))) => &mut array.schema_type,
        _ => return,
    };
    if let SchemaType::Array(types) = schema_type
        && let [only, Type::Null] = types.as_slice()
    {
        *schema_type = SchemaType::Type(only.clone());
    }
}

/// A reference to a type's schema, which is collected with those it refers to.
fn named<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

fn header(name: &str, required: Required, about: &str, schema: RefOr<Schema>) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(required)
        .description(Some(about))
        .schema(Some(schema))
        .build()
}

fn fencing_token(fencing: Fencing) -> Option<Parameter> {
    let (required, about, schema) = match fencing {
        Fencing::No => return None,
        Fencing::WhenHeld => {
            let about = "Token of the lease, when one is held";
            (Required::False, about, or_null(u64::schema()))
        }
        Fencing::Needed => (Required::True, "Token of the lease", u64::schema()),
    };
    Some(header("Fencing-Token", required, about, schema))
}

/// The schema of a header that may be left out.
fn or_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            if let SchemaType::Type(only) = object.schema_type {
                object.schema_type = SchemaType::Array(vec![only, Type::Null]);
            }
            RefOr::T(Schema::Object(object))
        }
        other => other,
    }
}

fn idempotency_key(about: &str) -> Parameter {
    let text = ObjectBuilder::new().schema_type(SchemaType::Array(vec![Type::String, Type::Null]));
    let text = text.min_length(Some(1)).max_length(Some(128));
    header("Idempotency-Key", Required::False, about, RefOr::T(text.into()))
}
