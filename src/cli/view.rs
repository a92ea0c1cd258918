//! `view`: prints a view of a session as HTTP returns it, or as text. It must not choose what is in
//! a view: the server does.

use std::io;

use bytes::Bytes;
use serde_json::Value;

use super::{
    args,
    failure::{CliError, Outcome},
    readable::{self, LineBuffer},
    screen::Screen,
};
use crate::{
    client::{Client, HttpRequest},
    event::SessionId,
    verbs::{SessionPath, StepPath, Verb, views},
    wire::json,
};

pub(super) async fn show(client: &Client, wanted: args::ViewArgs, screen: &mut Screen) -> Outcome {
    if wanted.find.is_some() && wanted.which != args::WhichView::Index {
        return Err(CliError::usage("--find goes with the view `index` alone"));
    }
    let (which, session) = (wanted.which, wanted.session);
    let is_brief = matches!(which, args::WhichView::Index | args::WhichView::Continuation);
    let is_part = wanted.find.is_some() || wanted.cursor.is_some() || wanted.explain;
    let is_brief = is_brief && !is_part && !screen.json;
    let add = |request: HttpRequest| {
        let request = request
            .query_opt("from", wanted.from)
            .query_opt("recall", wanted.recall.map(args::name_of))
            .query_opt("recall_tokens", wanted.recall_tokens)
            .query_opt("at", wanted.at)
            .query_opt("branch", wanted.branch)
            .query_opt("cursor", wanted.cursor)
            .query_opt("level", wanted.level)
            .query_opt("explain", wanted.explain.then_some("true"))
            .query_opt("find", wanted.find)
            .query_opt("format", is_brief.then_some("text"));
        add_window_plan(request, wanted.plan)
    };
    if is_brief {
        let place = SessionPath { session: session.clone() };
        let request = match which {
            args::WhichView::Index => HttpRequest::from_verb::<views::ViewIndex>(
                &place,
                &views::IndexQuery::default(),
                &(),
            ),
            _ => {
                let query = views::ContinuationQuery::default();
                HttpRequest::from_verb::<views::ViewContinuation>(&place, &query, &())
            }
        };
        let text = client.text(add(request)).await?;
        return Ok(LineBuffer::print(screen, |paper| paper.push_markdown(&text))?);
    }
    let body = fetch(client, which, &session, wanted.step, add).await?;
    if screen.json {
        return Ok(screen.print_answer(&body)?);
    }
    let view: Value = json::parse_lossy(&body).map_err(io::Error::from)?;
    Ok(LineBuffer::print(screen, |paper| {
        readable::print_view(which, session.as_str(), &view, paper)
    })?)
}

/// Fetches a view as bytes, checked against its response type; `add` extends the query.
pub(super) async fn fetch(
    client: &Client,
    which: args::WhichView,
    session: &SessionId,
    step: Option<u64>,
    add: impl FnOnce(HttpRequest) -> HttpRequest,
) -> Outcome<Bytes> {
    let place = SessionPath { session: session.clone() };
    match which {
        args::WhichView::Index => fetch_as::<views::ViewIndex>(client, &place, add).await,
        args::WhichView::Summary => fetch_as::<views::ViewSummary>(client, &place, add).await,
        args::WhichView::Continuation => {
            fetch_as::<views::ViewContinuation>(client, &place, add).await
        }
        args::WhichView::Window => fetch_as::<views::ViewWindow>(client, &place, add).await,
        args::WhichView::Usage => fetch_as::<views::ViewUsage>(client, &place, add).await,
        args::WhichView::Threads => fetch_as::<views::ViewThreads>(client, &place, add).await,
        args::WhichView::Compactions => {
            fetch_as::<views::ViewCompactions>(client, &place, add).await
        }
        args::WhichView::Step => {
            let number = step.unwrap_or_default().to_string();
            let place = StepPath { session: session.clone(), number };
            fetch_as::<views::ViewStep>(client, &place, add).await
        }
    }
}

async fn fetch_as<V: Verb<Body = ()>>(
    client: &Client,
    params: &V::Params,
    add: impl FnOnce(HttpRequest) -> HttpRequest,
) -> Outcome<Bytes> {
    let request = add(HttpRequest::from_verb::<V>(params, &V::Query::default(), &()));
    Ok(client.send_checked::<V>(request).await?)
}

/// Adds the options for building a window to a request.
pub(super) fn add_window_plan(request: HttpRequest, plan: args::WindowArgs) -> HttpRequest {
    let request = request
        .query_opt("tokens_max", plan.tokens_max)
        .query_opt("format", plan.format.map(args::name_of))
        .query_opt("tokenizer", plan.tokenizer);
    let named = plan.transform.into_iter();
    named.fold(request, |request, transform| request.query("transforms[]", transform))
}
