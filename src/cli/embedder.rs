//! The embedder of the settings: the server that makes vectors of texts once the user enables it,
//! and its key. It must not send anything.

use std::{path::PathBuf, sync::Arc};

use url::Url;

use super::{
    failure::{CliError, Outcome},
    values::{ConfigError, SettingValues, parse_server_url},
};
use crate::{
    client::{EmbedderOptions, HttpEmbedder},
    env::files,
    service::Embedder,
};

const KEY_BYTES_MAX: u64 = 4 << 10;
/// Maximum number of dimensions of a vector.
const NUMBERS_MAX: usize = 8_192;

/// Settings of an embedder.
#[derive(Clone, Debug, Default)]
pub(super) struct EmbedderSource {
    url: Option<Url>,
    model: String,
    key_file: Option<PathBuf>,
    /// Number of dimensions of a vector; 0 for the model's default.
    numbers: usize,
    /// Send all events, not only messages of users and agents.
    pub(super) all: bool,
}

impl EmbedderSource {
    pub(super) fn parse(
        settings: SettingValues<'_>,
        key_file: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let wanted = "an address such as http://127.0.0.1:11434/v1/embeddings";
        let url = |text: &str| {
            if text.is_empty() { Some(None) } else { parse_server_url(text).map(Some) }
        };
        let numbers = |text: &str| text.parse().ok().filter(|numbers| *numbers <= NUMBERS_MAX);
        let dims = "a number up to 8192, 0 for the model's own";
        Ok(Self {
            url: settings.parse("embedder_url", wanted, url)?.flatten(),
            model: settings.text("embedder_model").to_owned(),
            key_file,
            numbers: settings.parse("embedder_dims", dims, numbers)?.unwrap_or_default(),
            all: !settings.is_first_of("embed", ["said", "all"])?,
        })
    }

    /// Creates the embedder, if one is configured.
    pub(super) fn create_embedder(&self) -> Outcome<Option<Arc<dyn Embedder>>> {
        let Some(url) = self.url.clone() else { return Ok(None) };
        if self.model.is_empty() {
            return Err(ConfigError::Alone { name: "embedder_url", other: "embedder_model" }.into());
        }
        let read = |path: &PathBuf| {
            files::read_private(path, KEY_BYTES_MAX).map_err(|error| {
                let path = path.display();
                let action = format!("write the key into it, then chmod 600 {path}");
                CliError::invalid_request(format!("embedder_key_file {path}: {error}"), action)
            })
        };
        let options = EmbedderOptions {
            url,
            model: self.model.clone(),
            key: self.key_file.as_ref().map(read).transpose()?,
            numbers: (self.numbers > 0).then_some(self.numbers),
        };
        let wrong = "correct embedder_url and embedder_key_file";
        let embedder = HttpEmbedder::new(options);
        let embedder =
            embedder.map_err(|error| CliError::invalid_request(error.to_string(), wrong))?;
        Ok(Some(Arc::new(embedder)))
    }
}
