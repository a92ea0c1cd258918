//! Table of programs and their subcommands: those that only read, and those that change something
//! other than files. It must not parse a command line.

use crate::event::lists::has_word;

/// Clients of code hosts and issue trackers; their second argument is the verb.
pub(super) const HOSTS: &str = "gh glab jira linear";
/// Programs, their subcommands that only read, and those that change something.
const PROGRAMS: [(&str, &str, &str); 24] = [
    (
        "git",
        "diff grep log show status blame branch remote describe reflog shortlog rev-parse rev-list \
         ls-files ls-tree ls-remote cat-file merge-base show-ref for-each-ref name-rev \
         symbolic-ref check-ignore config whatchanged range-diff diff-tree diff-index cherry var \
         version help",
        "commit push checkout switch reset merge rebase revert cherry-pick pull am",
    ),
    (
        "kubectl oc",
        "get describe logs top explain version api-resources",
        "apply delete create patch scale rollout replace edit set label annotate drain cordon \
         uncordon expose",
    ),
    ("helm", "list status get history", "install upgrade uninstall rollback"),
    ("terraform tofu", "show output state", "apply destroy import up taint"),
    ("pulumi", "", "apply destroy import up taint"),
    (
        "docker podman",
        "ps logs inspect images port top version info",
        "run rm rmi build push stop start restart kill tag compose",
    ),
    ("docker-compose", "", "up down rm stop start restart build"),
    ("npm pnpm yarn bun", "ls list view info outdated why root", ""),
    ("cargo", "tree metadata search locate-project pkgid", ""),
    ("go", "list env doc version", ""),
    (
        "npm pnpm yarn bun gem bundle composer go cargo poetry uv",
        "",
        "install i add remove uninstall ci publish update require get",
    ),
    ("pip pip3", "show list freeze check index", ""),
    ("brew apt apt-cache dpkg", "list info search show -l -s policy", ""),
    (
        "pip pip3 apt apt-get brew dnf yum apk conda",
        "",
        "install uninstall remove purge upgrade add del",
    ),
    ("rustup", "show which", ""),
    (
        "systemctl service",
        "status is-active is-enabled list-units",
        "start stop restart reload enable disable",
    ),
    ("alembic", "", "upgrade downgrade stamp"),
    ("manage.py", "", "migrate loaddata flush"),
    (
        "flyway liquibase prisma knex sqlx diesel dbmate goose migrate sequelize",
        "",
        "migrate up down update migration db rollback reset",
    ),
    ("rails rake", "", "migrate rollback"),
    ("bd beads", "show list ready search stats blocked", ""),
    ("bd beads tk", "", "close create update reopen delete claim dep sync start done"),
    // For these the second argument is the subcommand.
    ("gh glab", "view list status diff checks watch search", ""),
    (
        HOSTS,
        "",
        "create merge close edit comment delete review reopen update move assign note rerun \
         approve transition",
    ),
];

pub(super) fn is_read_only_subcommand(program: &str, word: &str) -> bool {
    PROGRAMS.iter().any(|(names, looks, _)| has_word(names, program) && has_word(looks, word))
}

/// Returns true if a program with this subcommand changes something other than files.
pub(super) fn is_changing_subcommand(program: &str, word: &str) -> bool {
    PROGRAMS.iter().any(|(names, _, changes)| has_word(names, program) && has_word(changes, word))
}
