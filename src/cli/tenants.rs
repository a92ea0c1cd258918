//! Reader of `tenants_file`, the limits of individual tenants. It must not enforce a limit.
//!
//! ```json
//! {"acme": {"sessions_max": 100, "bytes_max": "10GiB", "requests_max": 8, "readers_max": 4,
//!           "rate_max": 50}}
//! ```

use std::{collections::HashMap, path::Path};

use serde::Deserialize;

use super::{
    failure::{CliError, Outcome},
    values::parse_size,
};
use crate::{
    access::{PerTenant, TenantLimits},
    env::files,
    event::TenantId,
    service::Quotas,
};

const FILE_BYTES_MAX: u64 = 16 << 20;

/// Settings of one tenant; the others are as for all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsOfTenant {
    sessions_max: Option<u64>,
    bytes_max: Option<ByteSize>,
    requests_max: Option<u32>,
    readers_max: Option<u32>,
    rate_max: Option<u32>,
}

/// Bytes, as a number or as a setting spells them.
#[derive(Deserialize)]
#[serde(untagged)]
enum ByteSize {
    Bytes(u64),
    Text(String),
}

impl ByteSize {
    fn bytes(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(*bytes),
            Self::Text(text) => parse_size(text),
        }
    }
}

/// Reads the limits of tenants; `limits` and `quotas` apply where the file sets none.
pub(super) fn read_limits(
    path: Option<&Path>,
    limits: TenantLimits,
    quotas: Quotas,
) -> Outcome<(PerTenant<TenantLimits>, PerTenant<Quotas>)> {
    let (mut all_limits, mut all_quotas) = (PerTenant::from(limits), PerTenant::from(quotas));
    let Some(path) = path else { return Ok((all_limits, all_quotas)) };
    let text = files::read_text(path, FILE_BYTES_MAX).map_err(CliError::file(path))?;
    let action = "correct the file: a JSON object with the limits of each tenant";
    let wrong = |problem: String| {
        CliError::invalid_request(format!("tenants_file {}: {problem}", path.display()), action)
    };
    let own: HashMap<String, LimitsOfTenant> =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    for (name, own) in own {
        let tenant = TenantId::new(&name).map_err(|error| wrong(format!("{name:?}: {error}")))?;
        let said = own.bytes_max.as_ref();
        let bytes = said.map(|said| said.bytes().ok_or_else(|| wrong("bytes_max: no size".into())));
        let bytes = bytes.transpose()?;
        all_limits.set(
            tenant.clone(),
            TenantLimits {
                requests_max: own.requests_max.unwrap_or(limits.requests_max),
                readers_max: own.readers_max.unwrap_or(limits.readers_max),
                requests_per_second: own.rate_max.unwrap_or(limits.requests_per_second),
            },
        );
        all_quotas.set(
            tenant,
            Quotas {
                sessions_max: own.sessions_max.unwrap_or(quotas.sessions_max),
                bytes_max: bytes.unwrap_or(quotas.bytes_max),
            },
        );
    }
    Ok((all_limits, all_quotas))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_a_tenant_does_not_set_has_the_common_value() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("tenants.json");
        let limits = TenantLimits { requests_max: 8, readers_max: 4, requests_per_second: 2 };
        let quotas = Quotas { sessions_max: 10, bytes_max: 1 << 20 };
        let read_of = |text: &str| {
            crate::env::files::remove(&path).expect("removed");
            crate::env::files::append(&path, text.as_bytes()).expect("written");
            read_limits(Some(&path), limits, quotas)
        };
        let text = r#"{"acme": {"bytes_max": "2MiB", "readers_max": 0}, "b": {"bytes_max": 7}}"#;
        let (of_limits, of_quotas) = read_of(text).expect("it is read");
        let [acme, b, other] =
            ["acme", "b", "other"].map(|name| TenantId::new(name).expect("a name"));
        assert_eq!(*of_limits.get(&acme), TenantLimits { readers_max: 0, ..limits });
        assert_eq!(*of_quotas.get(&acme), Quotas { bytes_max: 2 << 20, ..quotas });
        assert_eq!(*of_quotas.get(&b), Quotas { bytes_max: 7, ..quotas });
        assert_eq!((*of_limits.get(&other), *of_quotas.get(&other)), (limits, quotas));
        for bad in
            ["", "[]", r#"{"a b": {}}"#, r#"{"a": {"rate": 1}}"#, r#"{"a": {"bytes_max": "x"}}"#]
        {
            assert!(read_of(bad).is_err(), "{bad}");
        }
    }
}
