//! Calls of declared verbs: the request from what the verb says of itself, the answer as the type it
//! says. It must not know a verb.

use reqwest::Method;

use super::{Client, ClientError, Request, path_part};
use crate::verbs::{Asks, Method as Declared, Place as _, Verb, write_query};

impl Request {
    /// A call of a verb, for a caller that adds headers to it.
    ///
    /// # Panics
    /// When the body of the verb is not JSON.
    #[must_use]
    pub fn of<V: Verb>(place: &V::Place, query: &V::Query, body: &V::Body) -> Self {
        let method = match V::ROUTE.method {
            Declared::Get => Method::GET,
            Declared::Post => Method::POST,
            Declared::Put => Method::PUT,
            Declared::Delete => Method::DELETE,
            Declared::Any => unreachable!("a verb has a method"),
        };
        let path =
            place.parts().into_iter().fold(V::ROUTE.path.to_owned(), |path, (name, text)| {
                path.replace(&format!("{{{name}}}"), &path_part(text))
            });
        let pairs = write_query(query).into_iter();
        let request =
            pairs.fold(Self::new(method, path), |all, (name, text)| all.query(name, text));
        match V::ASKS {
            Asks::Nothing => request,
            Asks::Maybe(_) | Asks::Body(_) => {
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
    /// [`ClientError`]; [`ClientError::Foreign`] for an answer that is not the verb's.
    pub async fn call<V: Verb>(
        &self,
        place: &V::Place,
        query: &V::Query,
        body: &V::Body,
    ) -> Result<V::Answer, ClientError> {
        self.ask::<V>(Request::of::<V>(place, query, body)).await
    }

    /// Sends a [call](Request::of) of a verb.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    pub async fn ask<V: Verb>(&self, request: Request) -> Result<V::Answer, ClientError> {
        let answer = self.send(request).await?;
        serde_json::from_slice(&answer.body).map_err(|error| ClientError::Foreign {
            address: self.address(),
            reason: format!("its answer to {} cannot be read ({error})", V::ROUTE.id),
        })
    }
}
