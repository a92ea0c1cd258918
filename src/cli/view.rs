//! `view`: a view of a session as HTTP answers it, or as text for a person. It must not choose
//! what is in a view: the server does.

use serde_json::Value;

use super::{
    args,
    failure::{Failure, Outcome},
    readable::{self, Paper},
    screen::Screen,
};
use crate::client::{Client, Request, session_path};

pub(super) async fn show(client: &Client, wanted: args::View, screen: &mut Screen) -> Outcome {
    if wanted.find.is_some() && wanted.which != args::WhichView::Index {
        return Err(Failure::Usage("--find goes with the view `index` alone".to_owned()));
    }
    let step = wanted.step.filter(|_| wanted.which == args::WhichView::Step);
    let step = step.map(|number| format!("/{number}")).unwrap_or_default();
    let path = format!("/views/{}{step}", wanted.which.route());
    let path = session_path(&wanted.session, &path);
    let request = Request::get(path)
        .query_opt("from", wanted.from)
        .query_opt("at", wanted.at)
        .query_opt("branch", wanted.branch)
        .query_opt("cursor", wanted.cursor)
        .query_opt("level", wanted.level)
        .query_opt("explain", wanted.explain.then_some("true"))
        .query_opt("find", wanted.find);
    let body = client.send(planned(request, wanted.plan)).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let view: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut paper = Paper::new(screen.columns(), screen.times());
    readable::view(wanted.which, wanted.session.as_str(), &view, &mut paper);
    Ok(screen.lines(paper.lines())?)
}

/// The request for a window that is built so.
pub(super) fn planned(request: Request, plan: args::WindowPlan) -> Request {
    let request = request
        .query_opt("tokens_max", plan.tokens_max)
        .query_opt("format", plan.format.map(args::WindowFormat::as_str))
        .query_opt("tokenizer", plan.tokenizer);
    let named = plan.transform.into_iter();
    named.fold(request, |request, transform| request.query("transforms[]", transform))
}
