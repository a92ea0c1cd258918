//! The address of a database: `postgres://USER@HOST[:PORT][,HOST…]/DATABASE?OPTION=VALUE`. It
//! must not show a password.

use std::{fmt, iter, net::IpAddr, time::Duration};

use percent_encoding::percent_decode_str;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use super::{
    super::Durability,
    tls::{TlsSettings, Verification},
};

const SCHEMA: &str = "sessionlog";
const PORT: u16 = 5432;
const CONNECT: Duration = Duration::from_secs(2);
/// Time after which a connection without an acknowledgement is lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// Options of the address.
const OPTIONS: &str = "schema, durability, sslmode, sslrootcert, sslcert, sslkey, host, port, \
                       user, application_name";

/// Address of a database.
#[derive(Clone)]
pub struct PostgresUrl {
    /// Settings of a connection, without a host.
    config: tokio_postgres::Config,
    hosts: Vec<(String, u16)>,
    /// Password of each host, as a file of passwords has them; empty without one.
    passwords: Vec<Option<String>>,
    pub(super) schema: String,
    /// The least durability that is accepted.
    durability: Option<Durability>,
    pub(super) tls: TlsSettings,
    shown: String,
    has_password: bool,
    database: String,
    user: String,
}

/// Reason for which an address is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(String);

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresUrl").field(&self.shown).finish()
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl PostgresUrl {
    /// Parses an address.
    ///
    /// # Errors
    /// [`UrlError`] with the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or_else(|| UrlError("it begins with postgres://".to_owned()))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(decode(password)?)),
            None => (credentials, None),
        };
        let database = decode(database)?;
        if database.contains('@') {
            let encoded = "encode / ? : and @ in a password as %2F %3F %3A and %40";
            return Err(UrlError(encoded.to_owned()));
        }
        let mut options = UrlOptions::parse(options)?;
        let hosts = options.choose_hosts(hosts)?;
        let user = options.user.take().map_or_else(|| decode(user), Ok)?;
        let database = if database.is_empty() { user.clone() } else { database };
        let is_local = hosts.iter().all(|(host, _)| is_local(host));
        let tls = options.tls(is_local)?;
        let mut config = tokio_postgres::Config::new();
        if !user.is_empty() {
            config.user(&user);
        }
        if !database.is_empty() {
            config.dbname(&database);
        }
        if let Some(password) = &password {
            config.password(password);
        }
        config
            .application_name(&options.name)
            .connect_timeout(CONNECT)
            .tcp_user_timeout(UNACKNOWLEDGED)
            .keepalives_idle(UNACKNOWLEDGED)
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .ssl_mode(match tls.verification {
                Verification::Disabled => SslMode::Disable,
                _ => SslMode::Require,
            });
        let UrlOptions { schema, durability, .. } = options;
        let list: Vec<String> = hosts.iter().map(|(host, port)| show_host(host, *port)).collect();
        let at = if user.is_empty() { String::new() } else { format!("{user}@") };
        let in_schema = if schema == SCHEMA { String::new() } else { format!("?schema={schema}") };
        let shown = format!("postgres://{at}{}/{database}{in_schema}", list.join(","));
        let has_password = password.is_some();
        let passwords = Vec::new();
        Ok(Self {
            config,
            hosts,
            passwords,
            schema,
            durability,
            tls,
            shown,
            has_password,
            database,
            user,
        })
    }

    /// Returns the settings of a connection to each host.
    pub(super) fn hosts(&self) -> Vec<tokio_postgres::Config> {
        let passwords = self.passwords.iter().map(Option::as_ref).chain(iter::repeat(None));
        let one = |((host, port), password): (&(String, u16), Option<&String>)| {
            let mut config = self.config.clone();
            config.host(host).port(*port);
            if let Some(password) = password {
                config.password(password);
            }
            config
        };
        self.hosts.iter().zip(passwords).map(one).collect()
    }

    /// Returns the least durability that the address accepts.
    pub(in crate::store) fn accepted_durability(&self) -> Durability {
        self.durability.unwrap_or(Durability::Single)
    }

    /// Returns true if the address has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.has_password
    }

    /// Returns true if the server proves who it is, or is on this machine.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.tls.verification != Verification::None
    }

    /// Returns the address with this password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// Returns the address with the passwords of a password file, as other clients of PostgreSQL
    /// read it: for each host that of the first line `HOST:PORT:DATABASE:USER:PASSWORD` that
    /// matches; `*` stands for any value, `\:` and `\\` for a colon and a backslash.
    #[must_use]
    pub fn with_password_file(mut self, text: &str) -> Self {
        let find = |(host, port): &(String, u16)| {
            // A directory of sockets that servers use by default stands for this machine.
            let is_usual = matches!(&**host, "/tmp" | "/run/postgresql" | "/var/run/postgresql");
            let host = if is_usual { "localhost" } else { host };
            find_password(text, [host, &port.to_string(), &self.database, &self.user])
        };
        self.passwords = self.hosts.iter().map(find).collect();
        self
    }
}

/// Returns the password of the first line that matches host, port, database and user.
fn find_password(text: &str, place: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (mut fields, mut field, mut letters) = (Vec::new(), String::new(), line.chars());
        while let Some(letter) = letters.next() {
            match letter {
                ':' if fields.len() < place.len() => fields.push(std::mem::take(&mut field)),
                '\\' => field.extend(letters.next()),
                letter => field.push(letter),
            }
        }
        let matches = fields.iter().zip(place).all(|(field, value)| field == "*" || field == value);
        (matches && fields.len() == place.len()).then_some(field)
    })
}

/// Options after the `?` of an address.
struct UrlOptions {
    schema: String,
    durability: Option<Durability>,
    mode: Option<String>,
    authorities: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    hosts: Option<String>,
    ports: Option<String>,
    user: Option<String>,
    name: String,
}

impl UrlOptions {
    fn parse(text: &str) -> Result<Self, UrlError> {
        let mut options = Self {
            schema: SCHEMA.to_owned(),
            durability: None,
            mode: None,
            authorities: None,
            certificate: None,
            key: None,
            hosts: None,
            ports: None,
            user: None,
            name: "sessionlog".to_owned(),
        };
        for (option, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let value = value.into_owned();
            match &*option {
                "schema" => options.schema = value,
                "durability" => options.durability = Some(parse_durability(&value)?),
                "sslmode" => options.mode = Some(value),
                "sslrootcert" => options.authorities = Some(value),
                "sslcert" => options.certificate = Some(value),
                "sslkey" => options.key = Some(value),
                "host" => options.hosts = Some(value),
                "port" => options.ports = Some(value),
                "user" => options.user = Some(value),
                "application_name" => options.name = value,
                // Every connection needs a server that takes writes.
                "target_session_attrs" if value == "read-write" || value == "primary" => {}
                other => {
                    let problem = format!("there is no option {other:?}; there are {OPTIONS}");
                    return Err(UrlError(problem));
                }
            }
        }
        if !is_plain_name(&options.schema) {
            let schema = &options.schema;
            return Err(UrlError(format!(
                "schema: {schema:?} is not a name of letters, digits and underscores"
            )));
        }
        Ok(options)
    }

    /// Returns the hosts and ports of the options, or else those of the address, or else this
    /// machine: as libpq does, each replaces only its own part of the address.
    fn choose_hosts(&self, address: &str) -> Result<Vec<(String, u16)>, UrlError> {
        let address = address.split(',').filter(|host| !host.is_empty());
        let mut hosts: Vec<(String, u16)> = address.map(parse_host).collect::<Result<_, _>>()?;
        let mut ports: Vec<u16> = hosts.iter().map(|(_, port)| *port).collect();
        if let Some(list) = &self.ports {
            let parse = |port: &str| {
                port.parse().map_err(|_| UrlError(format!("port: {port:?} is no port")))
            };
            ports = list.split(',').map(parse).collect::<Result<_, _>>()?;
        }
        if let Some(list) = &self.hosts {
            hosts = list.split(',').map(|host| (host.to_owned(), PORT)).collect();
        }
        if hosts.is_empty() {
            hosts.push(("localhost".to_owned(), PORT));
        }
        let last = ports.last().copied().unwrap_or(PORT);
        let ports = ports.into_iter().chain(iter::repeat(last));
        Ok(hosts.into_iter().zip(ports).map(|((host, _), port)| (host, port)).collect())
    }

    /// Returns the settings of TLS.
    fn tls(&mut self, is_local: bool) -> Result<TlsSettings, UrlError> {
        let (authorities, mode) = (self.authorities.take(), self.mode.as_deref());
        let verification = parse_mode(mode, is_local, authorities.is_some())?;
        let (certificate, key) = (self.certificate.take(), self.key.take());
        if certificate.is_some() != key.is_some() {
            return Err(UrlError("sslcert and sslkey are given together".to_owned()));
        }
        Ok(TlsSettings { verification, authorities, certificate, key })
    }
}

fn decode(text: &str) -> Result<String, UrlError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(String::from).map_err(|_| UrlError("it is not valid UTF-8".to_owned()))
}

fn parse_host(text: &str) -> Result<(String, u16), UrlError> {
    let wrong = || UrlError("a host or port is wrong; encode / ? : and @ in a password".to_owned());
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        let port = rest.strip_prefix(':').map_or(Ok(PORT), str::parse);
        return Ok((host.to_owned(), port.map_err(|_| wrong())?));
    }
    match text.split_once(':') {
        Some((host, port)) => Ok((decode(host)?, port.parse().map_err(|_| wrong())?)),
        None => Ok((decode(text)?, PORT)),
    }
}

fn parse_durability(text: &str) -> Result<Durability, UrlError> {
    let found = Durability::parse(text);
    found.ok_or_else(|| {
        UrlError(format!("durability: {text:?} is none of weak, single, replicated"))
    })
}

fn parse_mode(
    mode: Option<&str>,
    is_local: bool,
    has_authorities: bool,
) -> Result<Verification, UrlError> {
    match mode {
        None if is_local => Ok(Verification::Disabled),
        None | Some("verify-full") => Ok(Verification::Full),
        Some("disable") => Ok(Verification::Disabled),
        Some("require") if has_authorities => Ok(Verification::Authority),
        Some("require") => Ok(Verification::None),
        Some("verify-ca") if has_authorities => Ok(Verification::Authority),
        Some("verify-ca") => Err(UrlError("sslmode=verify-ca needs sslrootcert=FILE".to_owned())),
        Some(other) => Err(UrlError(format!(
            "sslmode: {other:?} is none of disable, require, verify-ca, verify-full"
        ))),
    }
}

fn show_host(host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port == PORT { host } else { format!("{host}:{port}") }
}

/// Returns true if a host is this machine: a directory of a socket, or a loopback address.
fn is_local(host: &str) -> bool {
    host.starts_with('/')
        || host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_plain_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !name.is_empty() && name.len() <= 63 && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_parsed_and_shown_without_its_password() {
        let url =
            PostgresUrl::parse("postgres://ada:s%3Acret@db1,db2:6000/logs?schema=x1").unwrap();
        assert_eq!(url.to_string(), "postgres://ada@db1,db2:6000/logs?schema=x1");
        assert!(url.has_password() && !format!("{url:?}").contains("cret"));
        assert_eq!(url.config.get_password(), Some(&b"s:cret"[..]));
        let ports: Vec<u16> = url.hosts.iter().map(|(_, port)| *port).collect();
        assert_eq!(ports, [5432, 6000]);
        assert_eq!(url.tls.verification, Verification::Full);
        let local = PostgresUrl::parse("postgresql:///logs?host=/run/pg&port=6001").unwrap();
        assert_eq!(local.tls.verification, Verification::Disabled);
        assert_eq!(local.hosts, [("/run/pg".to_owned(), 6001)]);
    }

    #[test]
    fn an_option_replaces_only_its_own_part_of_the_address() {
        for (text, wanted) in [
            ("postgres://u@h:6001/d?host=/run/pg", &[("/run/pg", 6001)][..]),
            ("postgres://u@h:6001/d?port=6002", &[("h", 6002)]),
            ("postgres://u@h,i:6001/d?host=j,k", &[("j", PORT), ("k", 6001)]),
            ("postgres://u@h:6001/d?host=j,k", &[("j", 6001), ("k", 6001)]),
            ("postgres://u@/d?host=j,k&port=6001,6002", &[("j", 6001), ("k", 6002)]),
            ("postgres://u@/d?port=6001", &[("localhost", 6001)]),
        ] {
            let url = PostgresUrl::parse(text).unwrap();
            let hosts: Vec<_> = url.hosts.iter().map(|(host, port)| (&**host, *port)).collect();
            assert_eq!(hosts, wanted, "{text}");
        }
    }

    #[test]
    fn a_wrong_address_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("mysql://x", "postgres://"),
            ("postgres://h:port/d", "host"),
            ("postgres://h/d?schema=a-b", "schema"),
            ("postgres://h/d?durability=much", "durability"),
            ("postgres://h/d?sslmode=prefer", "sslmode"),
            ("postgres://h/d?sslmode=verify-ca", "sslrootcert"),
            ("postgres://h/d?sslcert=c", "sslkey"),
            ("postgres://h/d?pool=9", "pool"),
        ] {
            let error = PostgresUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn each_host_has_the_password_of_the_first_line_that_matches() {
        let text = "# db:*:*:ada:no\ndb:5432:other:ada:no\n*:*:logs:ada:a:b\n*:*:*:*:c";
        let hosts = "db1:*:logs:ada:one\ndb2:6000:logs:ada:two\n";
        for (address, file, expected) in [
            ("postgres://ada@db/logs", text, &[Some("a:b")][..]),
            ("postgres://ada@db/logs", "db:1:*:*:x\ndb:5432:logs:ada", &[None]),
            ("postgres://ada@db/a:b", r"db:*:a\:b:ada:one\:two\\", &[Some(r"one:two\")]),
            ("postgres://ada%5Cx@db/logs", r"*:*:*:ada\\x:y", &[Some("y")]),
            ("postgres://ada@[::1]:6000/logs", r"\:\:1:6000:logs:ada:six", &[Some("six")]),
            ("postgres://ada@/logs?host=/run/x", "/run/x:*:*:*:a\nlocalhost:*:*:*:b", &[Some("a")]),
            ("postgres://ada@/logs?host=/tmp", "/run/x:*:*:*:a\nlocalhost:*:*:*:b", &[Some("b")]),
            ("postgres://ada@db1,db2:6000,db3/logs", hosts, &[Some("one"), Some("two"), None]),
        ] {
            let url = PostgresUrl::parse(address).unwrap().with_password_file(file);
            let hosts = url.hosts();
            let found: Vec<_> = hosts.iter().map(tokio_postgres::Config::get_password).collect();
            let expected: Vec<_> = expected.iter().map(|one| one.map(str::as_bytes)).collect();
            assert_eq!(found, expected, "{file}");
        }
    }
}
