//! Settings of the network interfaces: the credentials that a server accepts and those that a
//! client sends. It must not check a credential: access does.

use std::{path::PathBuf, sync::Arc};

use super::{
    failure::{CliError, Outcome},
    tenants,
    values::{ConfigError, SettingValues, parse_size},
};
use crate::{
    access::{AccessOptions, Authenticator, Certificates, JwtRules, PerTenant, TenantLimits},
    client::Credentials,
    env::{clock::SystemClock, files},
    service::Quotas,
};

const TOKEN_BYTES_MAX: u64 = 16 << 10;
const CA_BYTES_MAX: u64 = 1 << 20;

/// Settings of the network interfaces.
#[derive(Clone, Debug, Default)]
pub(super) struct Interfaces {
    pub(super) tokens_file: Option<PathBuf>,
    jwt: JwtSettings,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    limits: TenantLimits,
    quotas: Quotas,
    tenants_file: Option<PathBuf>,
    token: Option<HiddenToken>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

/// Settings for JSON web tokens.
#[derive(Clone, Debug, Default)]
struct JwtSettings {
    keys: Option<PathBuf>,
    issuer: Option<String>,
    audience: Option<String>,
    tenant_claim: String,
    user_claim: String,
}

/// A credential that its `Debug` output hides.
#[derive(Clone)]
struct HiddenToken(String);

impl std::fmt::Debug for HiddenToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Interfaces {
    pub(super) fn parse(
        settings: SettingValues<'_>,
        path: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let text = |name: &str| settings.text(name).to_owned();
        let said = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let list = |name: &str| {
            let names = settings.text(name).split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let number = |name: &str| {
            let wanted = "a whole number, 0 for no limit";
            let number = settings.parse(name, wanted, |text| text.parse::<u32>().ok())?;
            Ok::<_, ConfigError>(number.unwrap_or_default())
        };
        let bytes = settings.parse(
            "tenant_bytes_max",
            "a size such as 10GiB, 0 for no limit",
            parse_size,
        )?;
        let token = settings.parse("token", "a credential: printable, without blanks", |text| {
            let is_printable = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
            is_printable.then(|| HiddenToken(text.to_owned()))
        })?;
        Ok(Self {
            tokens_file: path("tokens_file"),
            jwt: JwtSettings {
                keys: path("jwt_keys"),
                issuer: said("jwt_issuer"),
                audience: said("jwt_audience"),
                tenant_claim: text("jwt_tenant_claim"),
                user_claim: text("jwt_user_claim"),
            },
            tls_cert: path("tls_cert"),
            tls_key: path("tls_key"),
            allowed_hosts: list("allowed_hosts"),
            allowed_origins: list("allowed_origins"),
            limits: TenantLimits {
                requests_max: number("tenant_requests_max")?,
                readers_max: number("tenant_readers_max")?,
                requests_per_second: number("tenant_rate_max")?,
            },
            quotas: Quotas {
                sessions_max: number("tenant_sessions_max")?.into(),
                bytes_max: bytes.unwrap_or_default(),
            },
            tenants_file: path("tenants_file"),
            token,
            token_file: path("token_file"),
            ca: path("ca"),
        })
    }

    /// Returns the rules for accepted credentials; `None` if none is needed.
    pub(super) fn open_access(&self) -> Outcome<Option<Arc<Authenticator>>> {
        let jwt = self.jwt.to_rules()?;
        if self.tokens_file.is_none() && jwt.is_none() {
            return Ok(None);
        }
        let (tokens, limits) = (self.tokens_file.clone(), self.read_tenant_limits()?.0);
        let options = AccessOptions { tokens, jwt, limits };
        let action = "`sessionlog tokens create` makes a file of tokens";
        let access = Authenticator::open(options, Arc::new(SystemClock::new()));
        let access =
            access.map_err(|error| CliError::invalid_request(error.to_string(), action))?;
        Ok(Some(Arc::new(access)))
    }

    pub(super) fn read_quotas(&self) -> Outcome<PerTenant<Quotas>> {
        Ok(self.read_tenant_limits()?.1)
    }

    fn read_tenant_limits(&self) -> Outcome<(PerTenant<TenantLimits>, PerTenant<Quotas>)> {
        tenants::read_limits(self.tenants_file.as_deref(), self.limits, self.quotas)
    }

    /// Loads the TLS certificates; `None` for plain HTTP.
    pub(super) fn load_certificates(&self) -> Outcome<Option<Arc<Certificates>>> {
        let (certificate, key) = (self.tls_cert.clone(), self.tls_key.clone());
        let both = require_both_or_none("tls_cert", certificate, "tls_key", key)?;
        let Some((certificate, key)) = both else { return Ok(None) };
        let action = "tls_cert holds a certificate chain and tls_key its private key, both in PEM";
        let certificates = Certificates::open(certificate, key);
        let certificates =
            certificates.map_err(|error| CliError::invalid_request(error.to_string(), action))?;
        Ok(Some(Arc::new(certificates)))
    }

    /// Returns the credentials that a client sends to a server, and the authority it trusts.
    pub(super) fn read_credentials(&self) -> Outcome<Credentials> {
        let mut shown = Credentials { token: self.token.clone().map(|token| token.0), ca: None };
        if let (None, Some(path)) = (&shown.token, &self.token_file) {
            let found = files::path_info(path).map_err(CliError::file(path))?;
            if found.is_some_and(|found| found.mode & 0o077 != 0) {
                let path = path.display();
                let message = format!("{path}: others than you can read it");
                return Err(CliError::invalid_request(message, format!("chmod 600 {path}")));
            }
            let text = files::read_text(path, TOKEN_BYTES_MAX).map_err(CliError::file(path))?;
            shown.token = Some(text.trim().to_owned());
        }
        if let Some(path) = &self.ca {
            shown.ca = Some(files::read(path, CA_BYTES_MAX).map_err(CliError::file(path))?);
        }
        Ok(shown)
    }
}

impl JwtSettings {
    fn to_rules(&self) -> Result<Option<JwtRules>, ConfigError> {
        let Self { keys, issuer, audience, tenant_claim, user_claim } = self.clone();
        let keys = require_both_or_none("jwt_keys", keys, "jwt_issuer", issuer)?;
        let keys = require_both_or_none("jwt_keys", keys, "jwt_audience", audience)?;
        let rules = |((keys, issuer), audience)| JwtRules {
            keys,
            issuer,
            audience,
            tenant_claim,
            user_claim,
        };
        Ok(keys.map(rules))
    }
}

/// Checks that two settings are set together or not at all.
fn require_both_or_none<A, B>(
    name: &'static str,
    a: Option<A>,
    other: &'static str,
    b: Option<B>,
) -> Result<Option<(A, B)>, ConfigError> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::Alone { name, other }),
        (None, Some(_)) => Err(ConfigError::Alone { name: other, other: name }),
    }
}
