//! The arguments of verbs on a whole store: access, keys, backups and damage. It
//! must not act on them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    super::{common::parse_session_id, complete::id_completer},
    values::{SortOrder, parse_grant, parse_point, parse_receipt},
};
use crate::{access::Grant, event::SessionId};

#[derive(Debug, Args)]
#[command(after_help = "\
The file is the setting tokens_file. A server reloads it when it changes; a revoked token is refused
from the next request on.")]
pub(crate) struct TokensArgs {
    #[command(subcommand)]
    pub(crate) verb: TokensVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensVerb {
    /// Create a token and print it once
    Create(NewTokenArgs),
    /// List the tokens without their secrets
    List,
    /// Revoke a token
    Revoke(RevokeArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: sessionlog tokens create --tokens-file tokens.json --tenant acme --user ada --expires 90d
Scopes: read, write, delete, admin (the three before, and the tenant's administration) and operator
(administration of the server: metrics, reports).")]
pub(crate) struct NewTokenArgs {
    /// Tenant of the token
    #[arg(long, value_name = "T", default_value = "default")]
    pub(crate) tenant: String,
    /// User of the tenant; users do not see each other's sessions
    #[arg(long, value_name = "U")]
    pub(crate) user: String,
    /// Permissions of the token
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "read,write", value_parser = parse_grant)]
    pub(crate) scopes: Vec<Grant>,
    /// Expiry: a duration such as 90d or 12h, or an instant [default: never]
    #[arg(long, value_name = "WHEN")]
    pub(crate) expires: Option<String>,
    /// Label of the token
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// Token id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
To change the master key: set the new key as SESSIONLOG_KEY and the old one as
SESSIONLOG_KEY_PREVIOUS (or as the first and second line of the key file or of the key command's
output), restart the server, run `sessionlog keys rotate`, and remove the old key when it says so.
Events are not re-encrypted. An interrupted rotation continues with the next run.")]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) verb: KeysVerb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum KeysVerb {
    /// Show which keys the store needs and which are given; changes nothing
    Check,
    /// Wrap the keys of all sessions under the current master key
    Rotate,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Position of the first line
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) from: Option<String>,
    /// Maximum number of lines
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) limit: Option<u64>,
    /// Order of the output
    #[arg(long, value_enum, value_name = "ORDER", default_value = "asc")]
    pub(crate) order: SortOrder,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog backup create /backups/monday
  sessionlog backup restore /backups/monday --data-dir ./restored
A backup is as large and as confidential as the data directory. A backup of an encrypted store stays
encrypted and needs its key. It is consistent and contains everything acknowledged before it began.")]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(crate) verb: BackupVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupVerb {
    /// Copy the store into an empty or new directory and verify the copy
    Create(BackupCreateArgs),
    /// Restore a backup into the data directory, which must be empty or new
    Restore(BackupRestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BackupCreateArgs {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BackupRestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    pub(crate) from: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog migrate --from ~/.local/share/sessionlog --to postgres://sl@db.example.org/logs
  sessionlog migrate --from postgres://sessionlog@db.example.org/logs --to ./logs --keep
Every process that serves one of the two places must be stopped. A run that was interrupted is
continued by the same command; after the last step it changes nothing. Exit code 3: the source
has damaged sessions. See docs/beyond-one-machine.md.")]
pub(crate) struct MigrateArgs {
    /// Data directory or address of the database that the store is in
    #[arg(long, value_name = "PLACE")]
    pub(crate) from: String,
    /// New or empty data directory, or address of a database, to copy it to
    #[arg(long, value_name = "PLACE")]
    pub(crate) to: String,
    /// Leave the source writable; by default it refuses requests and names the new place
    #[arg(long)]
    pub(crate) keep: bool,
    /// Leave out damaged sessions, and forks that continue them, and list them
    #[arg(long)]
    pub(crate) allow_damaged: bool,
    /// Store in plaintext what the source has encrypted
    #[arg(long)]
    pub(crate) decrypt: bool,
    /// Read everything and report; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog verify                                every session
  sessionlog verify trip --expect-head 57:9d2a…    also check that nothing was rolled back
A receipt is the `receipt` of an append's answer, or of `sessionlog show S --json`. Keep the newest
one where writers of the data directory cannot change it. Exit code 3: something is damaged, or the
receipt does not hold.")]
pub(crate) struct VerifyArgs {
    /// Only this session: its id, or a unique prefix
    #[arg(value_name = "S", value_parser = parse_session_id, add = id_completer())]
    pub(crate) session: Option<SessionId>,
    /// Receipt of the session from outside the store: position and chain value
    #[arg(long, value_name = "POSITION:HASH", requires = "session", value_parser = parse_receipt)]
    pub(crate) expect_head: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog repair run-7
  sessionlog repair run-7 --accept-loss
  sessionlog repair --whole-store --accept-loss
Without --accept-loss nothing is changed; exit code 3 means that something is damaged. Accepted loss
stays a gap permanently; the damaged bytes are first copied to quarantine/.")]
pub(crate) struct RepairArgs {
    /// Session id, or a unique prefix of one
    #[arg(value_name = "S", value_parser = parse_session_id, required_unless_present = "whole_store")]
    pub(crate) session: Option<SessionId>,
    /// Repair damage that belongs to no session and makes the whole store read-only
    #[arg(long, conflicts_with = "session")]
    pub(crate) whole_store: bool,
    /// Accept the loss: record it, and allow appends after it
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Accepted for consistency; --accept-loss already confirms
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Show what would be lost; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sessionlog inspect ~/.local/share/sessionlog
  sessionlog inspect ~/.local/share/sessionlog/journal/0
It reads without the lock, so a directory in use shows a snapshot. Exit code 3: something is
damaged.")]
pub(crate) struct InspectArgs {
    /// A data directory, or a journal file or segment in one
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}
