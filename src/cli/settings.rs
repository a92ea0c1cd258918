//! The table of settings: name, default and description, from which flags, variables and help texts
//! are derived. It must not interpret a value: config does.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Prefix of every environment variable that is a setting.
pub(super) const PREFIX: &str = "SESSIONLOG_";
/// Heading of the flags that every verb has.
pub(super) const EVERY_VERB: &str = "Options of every verb";
/// Heading of the flags that only the help of `serve` shows.
const OWNER_HEADING: &str = "Settings";

/// A setting: its name in the file; the flag `--its-name` and the variable `SESSIONLOG_ITS_NAME`
/// set the same value.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// Placeholder of its value in the help.
    value: &'static str,
    /// `None`: computed at run time, or no default.
    pub(super) default: Option<&'static str>,
    meaning: &'static str,
    shown: HelpVisibility,
    /// True if an owner and its front ends must have the same value: they compare it.
    pub(super) shared: bool,
    /// True for a secret: it is read from the environment only, since others can read a command
    /// line and a settings file, and it is never shown.
    pub(super) secret: bool,
}

/// The help that shows a setting's flag. Every verb accepts it, since any may start an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HelpVisibility {
    Everywhere,
    Serve,
    /// For tests and special cases.
    Nowhere,
}

/// Returns true if the value of the setting is a path.
pub(super) fn is_path(name: &str) -> bool {
    SETTINGS.iter().any(|one| one.name == name && matches!(one.value, "FILE" | "DIR"))
}

/// All settings of this version.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::new("data_dir", "DIR", "directory of the store; default: in the XDG data home")
        .shown_everywhere(),
    Setting::new(
        "store",
        "URL",
        "database that several nodes share, in place of a data directory: postgres://USER@HOST/DATABASE",
    )
    .shown_everywhere()
    .as_shared(),
    Setting::new("store_password", "PASSWORD", "password for the database of store; environment only")
        .as_secret(),
    Setting::new(
        "store_passfile",
        "FILE",
        "file with the password, HOST:PORT:DATABASE:USER:PASSWORD a line; readable only by you; \
         default: ~/.pgpass",
    ),
    Setting::new(
        "require_durability",
        "WORD",
        "least durability of the database: weak, single or replicated; below it no write is accepted",
    )
    .as_shared(),
    Setting::new("url", "URL", "URL of a server to use instead of a data directory").shown_everywhere(),
    Setting::new("token", "TOKEN", "token for the server of url; environment only")
        .as_secret(),
    Setting::new("token_file", "FILE", "file with the token; readable only by you")
        .shown_everywhere(),
    Setting::new("ca", "FILE", "certificates to trust for the server of url, in PEM").shown_everywhere(),
    Setting::new(
        "secrets",
        "RULES",
        "redact secrets in hook and proxy before recording: on, off, or rules to disable: -jwt,-cookie",
    )
    .with_default("on")
    .shown_everywhere(),
    Setting::new("secrets_file", "FILE", "file with your own redaction rules, one per line: NAME PATTERN, or allow PATTERN")
        .shown_everywhere(),
    Setting::new("record", "ON", "record what other programs do, in hook and proxy: on or off")
        .with_default("on")
        .shown_everywhere(),
    Setting::new(
        "exclude",
        "GLOBS",
        "paths that hook and proxy never record, A,B: ~, *, ? and **; each with all below it",
    )
    .shown_everywhere(),
    Setting::new(
        "files_roots",
        "A:B",
        "directories, beside a workspace's own, whose files a save may name and a restore looks at",
    )
    .hidden(),
    Setting::new(
        "extractors",
        "SERVERS",
        "MCP servers that find entities in what a handoff saves: COMMAND or URL, each with #TOOL; A;B",
    )
    .hidden(),
    Setting::new("log", "LEVEL", "log level: off, error, warn, info, debug or trace")
        .with_default("info")
        .shown_everywhere(),
    Setting::new(
        "listen",
        "ADDRESS",
        "address to listen on; beyond this machine only with credentials; port 0 picks a free one",
    )
    .with_default("127.0.0.1:7717"),
    Setting::new("tokens_file", "FILE", "file of access tokens, managed by `sessionlog tokens`"),
    Setting::new("jwt_keys", "FILE", "public keys (a JWK Set) that JWTs are checked with"),
    Setting::new("jwt_issuer", "ISS", "required issuer of a JWT"),
    Setting::new("jwt_audience", "AUD", "required audience of a JWT"),
    Setting::new("jwt_tenant_claim", "CLAIM", "claim of a JWT that names the tenant").with_default("tenant"),
    Setting::new("jwt_user_claim", "CLAIM", "claim of a JWT that names the user").with_default("sub"),
    Setting::new("tls_cert", "FILE", "certificate chain to serve TLS with, in PEM"),
    Setting::new("tls_key", "FILE", "private key of tls_cert, in PEM; readable only by you"),
    Setting::new("allowed_hosts", "A,B", "host names of the server, besides loopback"),
    Setting::new("allowed_origins", "A,B", "origins whose pages may call, besides loopback"),
    Setting::new("tenant_sessions_max", "N", "maximum sessions of a tenant, 0 for no limit").with_default("0"),
    Setting::new("tenant_bytes_max", "SIZE", "maximum bytes that a tenant stores, 0 for no limit").with_default("0"),
    Setting::new("tenant_requests_max", "N", "maximum concurrent requests of a tenant, 0 for no limit")
        .with_default("0"),
    Setting::new("tenant_readers_max", "N", "maximum streams and long polls of a tenant, 0 for no limit")
        .with_default("0"),
    Setting::new("tenant_rate_max", "N", "maximum requests per second of a tenant, 0 for no limit")
        .with_default("0"),
    Setting::new("tenants_file", "FILE", "JSON file with limits of single tenants"),
    Setting::new(
        "ttl",
        "DURATION",
        "after this idle time a session is no longer taken up without its id, 0s for never",
    )
    .with_default("4h"),
    Setting::new(
        "retention",
        "DURATION",
        "after this idle time a session expires: it is not offered, and can be restored; 0s for never",
    )
    .with_default("30d"),
    Setting::new(
        "purge_after",
        "DURATION",
        "how long an expired session is kept before its bytes are removed, 0s: without end",
    )
    .with_default("0s"),
    Setting::new(
        "grace",
        "DURATION",
        "how long an expired temporary session is kept, and how long a deleted id is reserved",
    )
    .with_default("7d"),
    Setting::new(
        "checkpoint_interval",
        "DURATION",
        "interval of automatic checkpoints of changed sessions, 0s for never",
    )
    .with_default("600s"),
    Setting::new("max_steps", "N", "maximum steps of a research session, 0 for no limit").with_default("0"),
    Setting::new("token_limit", "N", "size of the model's context window in tokens, 0 for unknown")
        .with_default("200000"),
    Setting::new(
        "token_threshold",
        "SHARE",
        "share of token_limit at which a context should be compacted",
    )
    .with_default("0.75"),
    Setting::new("token_margin", "N", "tokens below token_limit that stay unused").with_default("100"),
    Setting::new("hook_tokens", "N", "maximum tokens that a hook injects, 0 for none")
        .with_default("3000"),
    Setting::new("hook_recall", "N", "maximum tokens of it from earlier sessions of the project, 0 for none")
        .with_default("600"),
    Setting::new(
        "hook_wait",
        "DURATION",
        "maximum time an agent waits for a hook; then the event is spooled",
    )
    .with_default("1500ms")
    .hidden(),
    Setting::new(
        "hook_timeout",
        "DURATION",
        "time after which the agent's program ends a hook, as in its settings; no hook waits longer than 0.8 of it",
    )
    .with_default("10s")
    .hidden(),
    Setting::new("context_threshold", "N", "least importance of a context item in a restore, 0 to 10")
        .with_default("3")
        .hidden(),
    Setting::new("context_items", "N", "maximum number of context items in a restore, up to 500")
        .with_default("50")
        .hidden(),
    Setting::new("search", "ON", "whether sessions can be searched: on or off").with_default("on").hidden(),
    Setting::new("search_memory", "SIZE", "memory for the search index that is in no file yet")
        .with_default("64MiB")
        .hidden(),
    Setting::new("embedder_url", "URL", "address of a /v1/embeddings; what was said is sent to it")
        .hidden(),
    Setting::new("embedder_model", "NAME", "model of the embedder").hidden(),
    Setting::new("embedder_key_file", "FILE", "file with its key; readable only by you").hidden(),
    Setting::new("embedder_dims", "N", "numbers of a vector, 0 for what the model gives")
        .with_default("0")
        .hidden(),
    Setting::new("embed", "WHAT", "what is sent: said (by people and agents), or all")
        .with_default("said")
        .hidden(),
    Setting::new(
        "owner_idle",
        "DURATION",
        "how long an owner started on demand stays without clients",
    )
    .with_default("60s")
    .hidden(),
    Setting::new(
        "journal_file_bytes",
        "SIZE",
        "size of one file of the commit journal, from 32KiB",
    )
    .with_default("32MiB")
    .hidden()
    .as_shared(),
    Setting::new(
        "journal_retained_bytes",
        "SIZE",
        "maximum journal bytes before they are settled into segments",
    )
    .with_default("256MiB")
    .hidden()
    .as_shared(),
    Setting::new(
        "lock_file_only",
        "BOOL",
        "accept a file system that cannot lock a directory, such as NFS: true or false",
    )
    .with_default("false")
    .hidden(),
    Setting::new("compression", "ON", "compress sealed segments: on or off").with_default("on").hidden(),
    Setting::new("segment_bytes_max", "SIZE", "size from which a segment is sealed")
        .with_default("8MiB")
        .hidden()
        .as_shared(),
    Setting::new(
        "settle_after",
        "DURATION",
        "idle time before the journal is settled, from 10ms",
    )
    .with_default("5s")
    .hidden(),
    Setting::new(
        "scrub_interval",
        "DURATION",
        "interval between full read-backs of settled data, 0s for never",
    )
    .with_default("24h")
    .hidden(),
    Setting::new("key_file", "FILE", "file with the store's master key; readable only by you"),
    Setting::new("key_command", "COMMAND", "command that prints the store's master key; run without a shell"),
    Setting::new("warm_bytes_max", "SIZE", "memory for recently read events, 0 for none")
        .with_default("32MiB")
        .hidden(),
];

impl Setting {
    const fn new(name: &'static str, value: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            value,
            default: None,
            meaning,
            shown: HelpVisibility::Serve,
            shared: false,
            secret: false,
        }
    }

    const fn with_default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    const fn shown_everywhere(self) -> Self {
        Self { shown: HelpVisibility::Everywhere, ..self }
    }

    const fn hidden(self) -> Self {
        Self { shown: HelpVisibility::Nowhere, ..self }
    }

    const fn as_shared(self) -> Self {
        Self { shared: true, ..self }
    }

    const fn as_secret(self) -> Self {
        Self { secret: true, ..self }
    }

    pub(super) fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Returns true if listings omit it while it has its default.
    pub(super) fn is_hidden(&self) -> bool {
        self.shown == HelpVisibility::Nowhere
    }

    /// Returns its description and default.
    pub(super) fn help_text(&self) -> String {
        match self.default {
            Some(default) => format!("{}; default {default}", self.meaning),
            None => self.meaning.to_owned(),
        }
    }

    /// Returns the name of its environment variable.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase())
    }

    /// Returns its flag, without the leading dashes.
    pub(super) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    fn to_arg(self) -> Arg {
        let mut help = self.help_text();
        if let Some(first) = help.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Arg::new(self.name).long(self.flag()).value_name(self.value).help(help)
    }
}

/// Flags that are settings, by the settings' names: every verb accepts all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Adds a flag unless it was given.
    pub(super) fn set_default(&mut self, name: &'static str, value: &str) {
        self.0.entry(name).or_insert_with(|| value.to_owned());
    }

    /// Removes a flag that has another meaning for the verb.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().filter(|setting| !setting.secret).fold(command, |command, setting| {
            let hide = setting.shown != HelpVisibility::Everywhere;
            command.arg(setting.to_arg().global(true).help_heading(EVERY_VERB).hide(hide))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &Setting| {
            if setting.secret {
                return None;
            }
            let value = matches.get_one::<String>(setting.name)?;
            Some((setting.name, value.clone()))
        };
        Ok(Self(SETTINGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Flags that only the help of `serve` shows; [`Flags`] parses them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnerFlags;

impl Args for OwnerFlags {
    fn augment_args(command: Command) -> Command {
        let shown = SETTINGS
            .iter()
            .filter(|setting| setting.shown == HelpVisibility::Serve && !setting.secret);
        shown.fold(command, |command, setting| {
            command.arg(setting.to_arg().help_heading(OWNER_HEADING))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OwnerFlags {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}
