//! `view`: prints a view of a session as HTTP returns it, or as text. It must not choose what is in
//! a view: the server does.

use std::io;

use bytes::Bytes;
use serde_json::Value;

use super::{
    args,
    failure::{Failure, Outcome},
    readable::{self, Paper},
    screen::Screen,
};
use crate::{
    client::{Client, Request},
    event::SessionId,
    verbs::{AtStep, InSession, Verb, views},
    wire::json,
};

pub(super) async fn show(client: &Client, wanted: args::ViewArgs, screen: &mut Screen) -> Outcome {
    if wanted.find.is_some() && wanted.which != args::WhichView::Index {
        return Err(Failure::usage("--find goes with the view `index` alone"));
    }
    let (which, session) = (wanted.which, wanted.session);
    let is_brief = matches!(which, args::WhichView::Index | args::WhichView::Continuation);
    let is_part = wanted.find.is_some() || wanted.cursor.is_some() || wanted.explain;
    let is_brief = is_brief && !is_part && !screen.json;
    let add = |request: Request| {
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
        planned(request, wanted.plan)
    };
    if is_brief {
        let place = InSession { session: session.clone() };
        let request = match which {
            args::WhichView::Index => {
                Request::from_verb::<views::Index>(&place, &views::IndexQuery::default(), &())
            }
            _ => {
                let query = views::ContinuationQuery::default();
                Request::from_verb::<views::Continuation>(&place, &query, &())
            }
        };
        let text = client.text(add(request)).await?;
        return Ok(Paper::print(screen, |paper| paper.brief(&text))?);
    }
    let body = fetch(client, which, &session, wanted.step, add).await?;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let view: Value = json::shown(&body).map_err(io::Error::from)?;
    Ok(Paper::print(screen, |paper| readable::view(which, session.as_str(), &view, paper))?)
}

/// Fetches a view as bytes, checked against its response type; `add` extends the query.
pub(super) async fn fetch(
    client: &Client,
    which: args::WhichView,
    session: &SessionId,
    step: Option<u64>,
    add: impl FnOnce(Request) -> Request,
) -> Outcome<Bytes> {
    let place = InSession { session: session.clone() };
    match which {
        args::WhichView::Index => text::<views::Index>(client, &place, add).await,
        args::WhichView::Summary => text::<views::Summary>(client, &place, add).await,
        args::WhichView::Continuation => text::<views::Continuation>(client, &place, add).await,
        args::WhichView::Window => text::<views::Window>(client, &place, add).await,
        args::WhichView::Usage => text::<views::Usage>(client, &place, add).await,
        args::WhichView::Compactions => text::<views::Compactions>(client, &place, add).await,
        args::WhichView::Step => {
            let number = step.unwrap_or_default().to_string();
            let place = AtStep { session: session.clone(), number };
            text::<views::Step>(client, &place, add).await
        }
    }
}

async fn text<V: Verb<Body = ()>>(
    client: &Client,
    params: &V::Params,
    add: impl FnOnce(Request) -> Request,
) -> Outcome<Bytes> {
    let request = add(Request::from_verb::<V>(params, &V::Query::default(), &()));
    Ok(client.checked::<V>(request).await?)
}

/// Adds the options of a window's plan to a request.
pub(super) fn planned(request: Request, plan: args::WindowPlan) -> Request {
    let request = request
        .query_opt("tokens_max", plan.tokens_max)
        .query_opt("format", plan.format.map(args::name_of))
        .query_opt("tokenizer", plan.tokenizer);
    let named = plan.transform.into_iter();
    named.fold(request, |request, transform| request.query("transforms[]", transform))
}
