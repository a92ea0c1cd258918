//! A client of an embedder at a URL: sends texts to a server with OpenAI's `/v1/embeddings`,
//! and returns vectors. It follows no redirect, and accepts only texts masked by the secret rules.
//! It must not choose texts, repeat a call, or put the address or the key into an error.

use std::{fmt, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use super::ClientError;
use crate::{
    secrets::MaskedText,
    verbs::embedding::{EmbedError, Embedder},
};

/// Maximum bytes of an answer: for each number of each vector, and for the rest.
const NUMBER_BYTES: usize = 32;
const ANSWER_BYTES: usize = 64 << 10;
/// Maximum number of dimensions of a vector.
const NUMBERS_MAX: usize = 8_192;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes sent of a text: models read no more of it.
const TEXT_BYTES_MAX: usize = 8_000;

/// Address and model of an embedder.
pub struct EmbedderOptions {
    /// The full URL of its embeddings.
    pub url: Url,
    /// Name of the model.
    pub model: String,
    /// API key, sent as a bearer token.
    pub key: Option<Zeroizing<String>>,
    /// Number of dimensions that the request asks for; `None` for the default of the model.
    pub numbers: Option<usize>,
}

/// A server that makes vectors of texts.
pub struct HttpEmbedder {
    http: reqwest::Client,
    options: EmbedderOptions,
    name: String,
}

#[derive(Serialize)]
struct EmbeddingsRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct EmbeddingsAnswer {
    data: Vec<IndexedVector>,
}

#[derive(Deserialize)]
struct IndexedVector {
    index: usize,
    embedding: Vec<f32>,
}

impl fmt::Debug for HttpEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEmbedder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl HttpEmbedder {
    /// Creates an embedder without connecting.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if TLS cannot be set up on this machine, or the key is not a valid
    /// header.
    pub fn new(options: EmbedderOptions) -> Result<Self, ClientError> {
        // An error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(key) = &options.key {
            let wrong = |_| ClientError::Setup("the key of the embedder is none".to_owned());
            let value = Zeroizing::new(format!("Bearer {}", key.trim()));
            let mut value = HeaderValue::from_str(&value).map_err(wrong)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .user_agent(concat!("sessionlog/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        if options.url.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| ClientError::Setup(error.to_string()))?;
        // Vectors of another model, or of another server's model of that name, are not comparable.
        let (server, path) = (options.url.origin().ascii_serialization(), options.url.path());
        let numbers = options.numbers.map_or(String::new(), |numbers| format!(" {numbers}"));
        let name = format!("{} {server}{path}{numbers}", options.model).replace('\n', " ");
        Ok(Self { http, name, options })
    }

    async fn request_vectors(&self, texts: Vec<MaskedText>) -> Result<Vec<Vec<f32>>, EmbedError> {
        fn truncate_text(text: &MaskedText) -> &str {
            let text = text.as_str();
            let text = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default();
            // Servers reject an empty text.
            if text.trim().is_empty() { "-" } else { text }
        }
        let texts: Vec<&str> = texts.iter().map(truncate_text).collect();
        let asked = EmbeddingsRequest {
            model: &self.options.model,
            input: &texts,
            encoding_format: "float",
            dimensions: self.options.numbers,
        };
        let sent = self.http.post(self.options.url.clone()).json(&asked).send().await;
        let mut answer = sent.map_err(|_| EmbedError::Unreachable)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(EmbedError::Refused(answer.status().as_u16()));
        }
        let bytes_max = ANSWER_BYTES + texts.len() * NUMBERS_MAX * NUMBER_BYTES;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|_| EmbedError::Unreachable)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > bytes_max {
                return Err(EmbedError::Wrong("its answer is too large".to_owned()));
            }
        }
        let wrong = |problem: &str| EmbedError::Wrong(problem.to_owned());
        let read: EmbeddingsAnswer =
            serde_json::from_slice(&bytes).map_err(|_| wrong("its answer has no vectors"))?;
        self.check_vectors(read, texts.len())
    }

    fn check_vectors(
        &self,
        mut read: EmbeddingsAnswer,
        count: usize,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        read.data.sort_by_key(|one| one.index);
        if read.data.iter().map(|one| one.index).ne(0..count) {
            let problem = format!("it answered {} vectors for {count} texts", read.data.len());
            return Err(EmbedError::Wrong(problem));
        }
        let vectors: Vec<Vec<f32>> = read.data.into_iter().map(|one| one.embedding).collect();
        let length = vectors.first().map_or(0, Vec::len);
        let wanted = self.options.numbers.unwrap_or(length);
        let fits = |vector: &Vec<f32>| {
            vector.len() == wanted && vector.iter().all(|number| number.is_finite())
        };
        if !(1..=NUMBERS_MAX).contains(&wanted) || !vectors.iter().all(fits) {
            let problem = format!("its vectors have {length} numbers, not {wanted}, or are none");
            return Err(EmbedError::Wrong(problem));
        }
        Ok(vectors)
    }
}

impl Embedder for HttpEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn embed(&self, texts: Vec<MaskedText>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedError>> {
        self.request_vectors(texts).boxed()
    }
}
