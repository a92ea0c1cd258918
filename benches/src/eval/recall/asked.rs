//! Records conversations in a server and searches them over HTTP, as a client does. It must not
//! count correct hits.

use std::io;

use serde_json::{Value, json};

use super::{
    super::desk,
    draw::Draw,
    figures::{Answer, Asked},
    set::{Conversation, Place, Question},
};
use crate::{
    failure::{Failure, Outcome},
    site::{Site, stop_here},
};
use ::sessionlog::{
    api::search::{Hit, SearchBody},
    client::{Client, ClientError},
    event::{SessionId, kinds},
    harness::{Counter as _, Tokenizer},
    verbs::{NoParams, NoQuery, search::SearchByBody},
};

/// Number of hits on a page, and its maximum.
const HITS: usize = 10;
pub(super) const HITS_MAX: usize = 100;
/// Milliseconds for which an answer may wait for the index.
const WAIT_MS: u64 = 60_000;

/// A client of the evaluation's server.
pub(super) struct Asker<'a> {
    pub(super) site: &'a Site,
    pub(super) client: Client,
}

impl Asker<'_> {
    /// Records a conversation as the sessions of a workspace.
    pub(super) fn record(&self, number: usize, said: &Conversation) -> Outcome {
        for (at, session) in said.sessions.iter().enumerate() {
            stop_here(self.site)?;
            let id = session_name_of(number, at);
            let events: Vec<Value> = session
                .turns
                .iter()
                .map(|turn| {
                    let kind =
                        if turn.answers { kinds::AGENT_MESSAGE } else { kinds::USER_MESSAGE };
                    let mut event = json!({
                        "type": kind, "speaker": turn.speaker, "content": turn.text,
                    });
                    let more = [("caption", &turn.caption), ("created_at", &session.at)];
                    if let Some(members) = event.as_object_mut() {
                        let more = more.into_iter().filter_map(|(name, value)| {
                            Some((name.to_owned(), json!(value.as_ref()?)))
                        });
                        members.extend(more);
                    }
                    event
                })
                .collect();
            self.site.wait(self.append_events(&id, number, &events))??;
        }
        Ok(())
    }

    async fn append_events(&self, id: &str, number: usize, events: &[Value]) -> Outcome {
        let session = SessionId::new(id).map_err(io::Error::other)?;
        desk::create(&self.client, &session, Some(workspace_of(number))).await?;
        desk::append(&self.client, &session, events).await
    }

    /// Waits until all events are in the index.
    pub(super) fn wait_until_indexed(&self) -> Outcome {
        self.find(0, "anything", 1).map(drop)
    }

    /// Searches for a question: once with default options, which is timed, and once for all hits.
    pub(super) fn ask(&self, number: usize, question: &Question) -> Outcome<Answer> {
        let words = without_operators(&question.text);
        let began = self.site.clock.monotonic();
        let page = self.find(number, &words, HITS)?;
        let took = self.site.clock.monotonic().saturating_sub(began);
        let tokens = page.iter().map(|hit| Tokenizer::O200k.count(&hit.snippet.text));
        let tokens = tokens.sum::<usize>() as u64;
        let hits = turns_of_hits(&self.find(number, &words, HITS_MAX)?);
        let Question { text, evidence, category } = question.clone();
        let asked = Asked { text, evidence, category };
        Ok(Answer { conversation: number, asked, hits, took, tokens })
    }

    /// Returns true if the words of a turn find that turn first.
    pub(super) fn finds_first(&self, number: usize, drawn: &Draw) -> Outcome<bool> {
        let found = turns_of_hits(&self.find(number, &without_operators(&drawn.words), 1)?);
        Ok(found.first() == Some(&drawn.turn))
    }

    fn find(&self, number: usize, words: &str, limit: usize) -> Outcome<Vec<Hit>> {
        let asked = SearchBody {
            q: words.to_owned(),
            workspace: Some(workspace_of(number)),
            limit: Some(limit),
            wait_ms: WAIT_MS,
            ..SearchBody::default()
        };
        let call = self.client.call::<SearchByBody>(&NoParams {}, &NoQuery {}, &asked);
        match self.site.wait(call)? {
            Ok(answer) if answer.complete.is_complete => Ok(answer.hits),
            Ok(answer) => {
                let behind = answer.complete.events_behind;
                Err(Failure::Ended(
                    format!("{behind} events were not in the index after {WAIT_MS} ms"),
                    "run the evaluation again on a machine with less load",
                ))
            }
            // A text of only stop words finds nothing.
            Err(ClientError::Refused(refusal)) if refusal.code == "invalid_request" => {
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Removes the operators of a query from a text: a user who asks a question means words.
fn without_operators(text: &str) -> String {
    let words = text.split_whitespace().map(|word| {
        let is_sign = |c: char| matches!(c, '+' | '-' | '*' | '"' | '“' | '”' | '„');
        word.trim_matches(is_sign).replace(['"', '“', '”', '„'], " ").replace(':', ": ")
    });
    words.collect::<Vec<String>>().join(" ")
}

fn turns_of_hits(hits: &[Hit]) -> Vec<Place> {
    let place = |hit: &Hit| {
        let session = hit.session.as_str().rsplit('-').next()?.parse().ok()?;
        Some((session, usize::try_from(hit.position.0).ok()?))
    };
    hits.iter().filter_map(place).collect()
}

fn workspace_of(number: usize) -> String {
    format!("recall-{number}")
}

fn session_name_of(number: usize, session: usize) -> String {
    format!("recall-{number}-{session}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_sent_without_query_operators() {
        for (text, expected) in [
            ("What is \"Blue Door\" about?", "What is  Blue Door  about?"),
            ("-never +this who:Ana pre*", "never this who: Ana pre"),
            ("a well-known C++", "a well-known C"),
        ] {
            let asked = without_operators(text);
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(&asked), words(expected), "{text}");
        }
    }
}
