//! The settings there are, each once: a name, a default, a sentence, and by these its flag, its
//! variable and its line in every help. It must not know what a value means: config does.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Prefix of every environment variable that is a setting.
pub(super) const PREFIX: &str = "SESSIONLOG_";
/// Heading of the flags that every verb has.
pub(super) const EVERY_VERB: &str = "Options of every verb";
/// Heading of the flags that only an owner's verb shows.
const OF_AN_OWNER: &str = "Settings";

/// A setting: its name in the file; `--its-name` as a flag and `SESSIONLOG_ITS_NAME` in the
/// environment are the same.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// What stands for its value in a help.
    value: &'static str,
    /// `None`: worked out where the program runs, or nothing.
    pub(super) default: Option<&'static str>,
    meaning: &'static str,
    shown: Shown,
    /// Whether an owner must have it like its front ends: they compare it.
    pub(super) shared: bool,
    /// Whether it is a secret: it comes from the environment alone, for others can read a command
    /// line and a file of settings, and it is never shown.
    pub(super) secret: bool,
}

/// Whose help shows a setting's flag. Every verb takes it all the same: any may start an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Everywhere,
    Serve,
    /// For tests and special cases.
    Nowhere,
}

/// Every setting of this version.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::new("data_dir", "DIR", "where sessions are kept; default: in the XDG data home")
        .everywhere(),
    Setting::new("url", "URL", "server to talk to instead of a data directory").everywhere(),
    Setting::new("token", "TOKEN", "credential to show to the server of url; environment only")
        .secret(),
    Setting::new("token_file", "FILE", "file that holds the credential; readable by you alone")
        .everywhere(),
    Setting::new("ca", "FILE", "certificates to believe the server of url by, in PEM").everywhere(),
    Setting::new(
        "secrets",
        "RULES",
        "secrets that hook and proxy take out before they record: on, off, or rules to leave out: -jwt,-cookie",
    )
    .or("on")
    .everywhere(),
    Setting::new("secrets_file", "FILE", "rules of your own: NAME PATTERN, allow PATTERN; one a line")
        .everywhere(),
    Setting::new("log", "LEVEL", "what to log: off, error, warn, info, debug or trace")
        .or("info")
        .everywhere(),
    Setting::new(
        "listen",
        "ADDRESS",
        "address to listen on; beyond this machine with credentials only; port 0: a free one",
    )
    .or("127.0.0.1:7717"),
    Setting::new("tokens_file", "FILE", "tokens that are let in; made by `sessionlog tokens`"),
    Setting::new("jwt_keys", "FILE", "public keys (a JWK Set) of who signs JWTs that are let in"),
    Setting::new("jwt_issuer", "ISS", "who must have issued a JWT"),
    Setting::new("jwt_audience", "AUD", "whom a JWT must be for"),
    Setting::new("jwt_tenant_claim", "CLAIM", "claim of a JWT that names the tenant").or("tenant"),
    Setting::new("jwt_user_claim", "CLAIM", "claim of a JWT that names the user").or("sub"),
    Setting::new("tls_cert", "FILE", "certificate chain to serve TLS with, in PEM"),
    Setting::new("tls_key", "FILE", "private key of tls_cert, in PEM; readable by you alone"),
    Setting::new("allowed_hosts", "A,B", "names the server goes by, beside those of loopback"),
    Setting::new("allowed_origins", "A,B", "origins whose pages may call, beside loopback ones"),
    Setting::new("tenant_sessions_max", "N", "sessions of a tenant, 0 for no limit").or("0"),
    Setting::new("tenant_bytes_max", "SIZE", "bytes of a tenant's events, 0 for no limit").or("0"),
    Setting::new("tenant_requests_max", "N", "requests of a tenant at once, 0 for no limit")
        .or("0"),
    Setting::new("tenant_readers_max", "N", "streams and long polls of a tenant at once, 0: any")
        .or("0"),
    Setting::new("tenant_rate_max", "N", "requests of a tenant in a second, 0 for no limit")
        .or("0"),
    Setting::new("tenants_file", "FILE", "limits that some tenants have for themselves, in JSON"),
    Setting::new(
        "ttl",
        "DURATION",
        "idle for longer, a session is offered by its id only, 0s for never",
    )
    .or("4h"),
    Setting::new(
        "retention",
        "DURATION",
        "idle for longer, a session expires: it is no longer offered, and can be restored; 0s for never",
    )
    .or("30d"),
    Setting::new(
        "purge_after",
        "DURATION",
        "how long an expired session is kept before its bytes are removed, 0s for ever",
    )
    .or("0s"),
    Setting::new(
        "grace",
        "DURATION",
        "the same for an expired temporary session, and how long a deleted id stays taken",
    )
    .or("7d"),
    Setting::new(
        "checkpoint_interval",
        "DURATION",
        "how often sessions that changed get a checkpoint by themselves, 0s for never",
    )
    .or("600s"),
    Setting::new("max_steps", "N", "steps a research session takes, 0 for no limit").or("0"),
    Setting::new("token_limit", "N", "tokens that a model's context window takes, 0 for unknown")
        .or("200000"),
    Setting::new(
        "token_threshold",
        "SHARE",
        "share of token_limit from which on a context should be made smaller",
    )
    .or("0.75"),
    Setting::new("token_margin", "N", "tokens below token_limit that are never used").or("100"),
    Setting::new("hook_tokens", "N", "tokens that a hook tells a model at most, 0 for nothing")
        .or("3000"),
    Setting::new(
        "hook_wait",
        "DURATION",
        "how long an agent waits for a hook at most; then the event waits in the spool",
    )
    .or("1500ms")
    .nowhere(),
    Setting::new(
        "sweep_interval",
        "DURATION",
        "how often the owner looks for sessions past their time, 0s for never",
    )
    .or("10s")
    .nowhere(),
    Setting::new(
        "owner_idle",
        "DURATION",
        "how long an owner started on demand stays without front ends",
    )
    .or("60s")
    .nowhere(),
    Setting::new(
        "journal_file_bytes",
        "SIZE",
        "size of one file of the commit journal, from 32KiB",
    )
    .or("32MiB")
    .nowhere()
    .shared(),
    Setting::new(
        "journal_retained_bytes",
        "SIZE",
        "journal that may wait to be settled into segments",
    )
    .or("256MiB")
    .nowhere()
    .shared(),
    Setting::new(
        "lock_file_only",
        "BOOL",
        "accept a file system that cannot lock a directory, such as NFS: true or false",
    )
    .or("false")
    .nowhere(),
    Setting::new("compression", "ON", "compress what is sealed: on or off").or("on").nowhere(),
    Setting::new("segment_bytes_max", "SIZE", "size from which a segment is sealed")
        .or("8MiB")
        .nowhere()
        .shared(),
    Setting::new(
        "settle_after",
        "DURATION",
        "nobody wrote for so long: what waits is settled; from 10ms",
    )
    .or("5s")
    .nowhere(),
    Setting::new(
        "scrub_interval",
        "DURATION",
        "how often everything settled is read back, 0s for never",
    )
    .or("24h")
    .nowhere(),
    Setting::new("key_file", "FILE", "the store's master key, in a file that only its owner reads"),
    Setting::new("key_command", "COMMAND", "prints the store's master key; run without a shell"),
    Setting::new("warm_bytes_max", "SIZE", "memory for events that were read lately, 0 for none")
        .or("32MiB")
        .nowhere(),
];

impl Setting {
    const fn new(name: &'static str, value: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            value,
            default: None,
            meaning,
            shown: Shown::Serve,
            shared: false,
            secret: false,
        }
    }

    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    const fn everywhere(self) -> Self {
        Self { shown: Shown::Everywhere, ..self }
    }

    const fn nowhere(self) -> Self {
        Self { shown: Shown::Nowhere, ..self }
    }

    const fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    /// The setting of that name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether listings leave it out while nobody set it.
    pub(super) fn is_hidden(&self) -> bool {
        self.shown == Shown::Nowhere
    }

    /// What it is, and its default.
    pub(super) fn help(&self) -> String {
        match self.default {
            Some(default) => format!("{}; default {default}", self.meaning),
            None => self.meaning.to_owned(),
        }
    }

    /// Its variable in the environment.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase())
    }

    /// Its flag, without the dashes before it.
    pub(super) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    fn argument(&self) -> Arg {
        let mut help = self.help();
        if let Some(first) = help.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Arg::new(self.name).long(self.flag()).value_name(self.value).help(help)
    }
}

/// Flags that are settings, by the settings' names: every verb takes every one.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Takes a flag away: for a verb to which it means something else.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().filter(|setting| !setting.secret).fold(command, |command, setting| {
            let hide = setting.shown != Shown::Everywhere;
            command.arg(setting.argument().global(true).help_heading(EVERY_VERB).hide(hide))
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

/// The flags that the help of `serve` shows beside those of every verb; [`Flags`] takes them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfAnOwner;

impl Args for OfAnOwner {
    fn augment_args(command: Command) -> Command {
        let shown =
            SETTINGS.iter().filter(|setting| setting.shown == Shown::Serve && !setting.secret);
        shown.fold(command, |command, setting| {
            command.arg(setting.argument().help_heading(OF_AN_OWNER))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OfAnOwner {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}
