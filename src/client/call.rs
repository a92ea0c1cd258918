//! Calls of declared verbs: the request is built from the declaration, the answer is parsed as its
//! type. It must not depend on a particular verb.

use bytes::Bytes;
use reqwest::Method;
use serde::de::DeserializeOwned;

use super::{Client, ClientError, HttpAnswer, HttpRequest, escape_path_segment};
use crate::verbs::{BodyUse, JsonText, Method as Declared, PathParams as _, Verb, write_query};

impl HttpRequest {
    /// Builds the request of a verb, for a caller that adds headers to it.
    ///
    /// # Panics
    /// When the body of the verb is not JSON.
    #[must_use]
    pub fn from_verb<V: Verb>(params: &V::Params, query: &V::Query, body: &V::Body) -> Self {
        let method = match V::ROUTE.method {
            Declared::Get => Method::GET,
            Declared::Post => Method::POST,
            Declared::Put => Method::PUT,
            Declared::Delete => Method::DELETE,
            Declared::Any => unreachable!("a verb has a method"),
        };
        let path =
            params.to_pairs().into_iter().fold(V::ROUTE.path.to_owned(), |path, (name, text)| {
                path.replace(&format!("{{{name}}}"), &escape_path_segment(text))
            });
        let pairs = write_query(query).into_iter();
        let request =
            pairs.fold(Self::new(method, path), |all, (name, text)| all.query(name, text));
        match V::ASKS {
            BodyUse::Nothing => request,
            BodyUse::Maybe(_) | BodyUse::Body(_) => {
                let body = serde_json::to_vec(body).expect("a body is JSON");
                request.body(body, "application/json")
            }
        }
    }
}

impl Client {
    /// Calls a verb.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Foreign`] for an answer that does not parse.
    pub async fn call<V: Verb>(
        &self,
        params: &V::Params,
        query: &V::Query,
        body: &V::Body,
    ) -> Result<V::Answer, ClientError> {
        self.ask::<V>(HttpRequest::from_verb::<V>(params, query, body)).await
    }

    /// Sends a [request](HttpRequest::from_verb) of a verb, and parses its answer.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    pub async fn ask<V: Verb>(&self, request: HttpRequest) -> Result<V::Answer, ClientError> {
        let answer = self.send(request).await?;
        self.parse_answer::<V>(&answer)
    }

    /// Sends a request of a verb, checks that its answer parses, and returns the answer's text.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    pub async fn send_checked<V: Verb>(&self, request: HttpRequest) -> Result<Bytes, ClientError> {
        let answer = self.send(request).await?;
        self.parse_answer::<V>(&answer).map(|_| answer.body)
    }

    fn parse_answer<V: Verb>(&self, answer: &HttpAnswer) -> Result<V::Answer, ClientError> {
        let read = serde_json::from_slice(&answer.body);
        read.map_err(|error| self.unreadable_answer(V::ROUTE.id, &error))
    }

    /// Parses an answer that is text.
    ///
    /// # Errors
    /// [`ClientError::Foreign`] for a text that does not parse.
    pub fn parse_text_answer<V, T>(&self, answer: &JsonText<T>) -> Result<T, ClientError>
    where
        V: Verb<Answer = JsonText<T>>,
        T: DeserializeOwned,
    {
        answer.parse().map_err(|error| self.unreadable_answer(V::ROUTE.id, &error))
    }

    fn unreadable_answer(&self, call: &str, error: &serde_json::Error) -> ClientError {
        let reason = format!("its answer to {call} cannot be read ({error})");
        ClientError::Foreign { address: self.address(), reason }
    }
}
