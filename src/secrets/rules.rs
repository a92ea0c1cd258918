//! The rules, as data. Each has a name, keywords one of which its match contains in any letter
//! case, and a pattern: the group `s`, or else the whole match, is the secret. The tests have a
//! text that each rule matches and a similar one that it does not. It must hold no code.
//!
//! The patterns follow the formats that the issuers of these keys publish. The last rules are not
//! specific to an issuer and depend on the text before a value; an earlier rule is more specific.

use super::match_test::MatchTest;

/// The rule for JSON members whose name marks a secret.
pub(super) const MEMBER: &str = "secret-member";

/// A rule for one kind of secret.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Name of the rule, which replaces the secret.
    pub name: &'static str,
    /// Description of the secrets it finds, for users; empty for a variant of the previous rule.
    pub finds: &'static str,
    pub(super) keywords: &'static [&'static str],
    pub(super) pattern: &'static str,
    pub(super) test: MatchTest,
}

const fn rule(
    name: &'static str,
    finds: &'static str,
    keywords: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    Rule { name, finds, keywords, pattern, test: MatchTest::Any }
}

impl Rule {
    const fn with_test(self, test: MatchTest) -> Self {
        Self { test, ..self }
    }
}

/// Defines another pattern of the previous rule.
const fn variant(
    name: &'static str,
    keywords: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    rule(name, "", keywords, pattern)
}

/// Every rule, the most specific first. A pattern ends where the next match could begin, or soon
/// after: one that scans far for its end from each of its starts takes quadratic time on a text
/// written to provoke that.
pub const RULES: &[Rule] = &[
    rule(
        "private-key",
        "private keys in PEM or armour (RSA, EC, OpenSSH, PGP), also cut off",
        &["private key"],
        r#"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:-{0,4}[A-Za-z0-9+/=\s\\,:()._@→|>"'\[\]]){8,}?-?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:(?:[\s"',]|\\[nr"]){0,6}(?:[0-9]{1,6}\s?[:→|])?[-+>|]?\s?[A-Za-z0-9+/=]{16,})+)"#,
    ),
    variant(
        "private-key",
        &["private key"],
        r#"(?:[A-Za-z0-9+/=]{16,76}(?:[\s"',]|\\[nr"]){1,6}(?:[0-9]{1,6}\s?[:→|])?[-+>|]?\s?)+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"#,
    ),
    rule("age-key", "keys of age", &["age-secret-key-"], r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}"),
    rule(
        "anthropic-key",
        "API and admin keys of Anthropic",
        &["sk-ant-"],
        r"\bsk-ant-[a-z]{2,12}\d{0,3}-[A-Za-z0-9_-]{20,}",
    ),
    rule(
        "openai-key",
        "API keys of OpenAI: of projects, services, admins, and the old ones",
        &["sk-"],
        r"\bsk-(?:proj-|svcacct-|admin-|None-)[A-Za-z0-9_-]{20,}|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|\bsk-[A-Za-z0-9]{48}\b",
    ),
    rule(
        "model-api-key",
        "keys of Groq, Hugging Face, Langfuse, OpenRouter, Perplexity, Replicate, xAI",
        &["gsk_", "hf_", "sk-lf-", "sk-or-", "pplx-", "r8_", "xai-"],
        r"\b(?:gsk_[A-Za-z0-9]{48,56}|hf_[A-Za-z0-9]{34,40}|sk-lf-[0-9a-f-]{36}|sk-or-v1-[0-9a-f]{64}|pplx-[A-Za-z0-9]{40,64}|r8_[A-Za-z0-9]{37,40}|xai-[A-Za-z0-9]{60,100})\b",
    ),
    rule(
        "aws-access-key-id",
        "ids of AWS access keys",
        &["akia", "asia", "abia", "acca"],
        r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    ),
    rule(
        "aws-secret-key",
        "secret AWS access keys and session tokens, by what stands before them",
        &["aws_secret", "secretaccesskey", "secret_access_key", "aws_session", "sessiontoken"],
        r#"(?i)(?:aws_?)?(?:secret_?access_?key|session_?token)\\*["']?\s{0,5}(?:=>|:=|=|:)\s{0,5}\\*["']?(?P<s>[A-Za-z0-9/+=]{40,})"#,
    ),
    rule(
        "azure-key",
        "account and shared access keys of Azure",
        &["accountkey=", "sharedaccesskey="],
        r"(?i:account|sharedaccess)(?i:key)=(?P<s>[A-Za-z0-9+/]{40,}={0,2})",
    ),
    rule(
        "azure-client-secret",
        "client secrets of Azure",
        &["q~"],
        r"\b[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
    ),
    rule("google-api-key", "API keys of Google", &["aiza"], r"\bAIza[0-9A-Za-z_-]{35}"),
    rule(
        "google-oauth",
        "OAuth secrets and tokens of Google",
        &["gocspx-", "ya29.", "1//0"],
        r"\bGOCSPX-[A-Za-z0-9_-]{24,}|\bya29\.[0-9A-Za-z_-]{20,}|\b1//0[0-9A-Za-z_-]{40,}",
    ),
    rule(
        "github-token",
        "tokens of GitHub, classic and fine-grained",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"\bgh[pousr]_[A-Za-z0-9]{36,255}|\bgithub_pat_[A-Za-z0-9_]{40,255}",
    ),
    rule(
        "gitlab-token",
        "tokens of GitLab",
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-", "glft-", "glimt-", "glagent-"],
        r"\bgl(?:pat|dt|rt|cbt|ptt|soat|ft|imt|agent)-[A-Za-z0-9_.=-]{20,}",
    ),
    rule(
        "slack-token",
        "tokens of Slack",
        &["xox", "xapp-"],
        r"\bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    ),
    rule(
        "webhook-url",
        "addresses whose knowledge is the right to post: Slack, Discord, Teams",
        &["hooks.slack.com", "/api/webhooks/", "webhook.office.com"],
        r"https://(?:hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[A-Za-z0-9+/_-]{20,})|(?:[a-z]+\.)?discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{40,}|[a-z0-9-]+\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/_-]{40,})",
    ),
    rule(
        "stripe-key",
        "secret and restricted keys and webhook secrets of Stripe",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"],
        r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}",
    ),
    rule("npm-token", "tokens of npm", &["npm_"], r"\bnpm_[A-Za-z0-9]{36}\b"),
    rule("pypi-token", "tokens of PyPI", &["pypi-age"], r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    rule(
        "registry-token",
        "tokens of crates.io, Docker Hub, RubyGems",
        &["cio", "dckr_", "rubygems_"],
        r"\bcio[A-Za-z0-9]{32}\b|\bdckr_[op]at_[A-Za-z0-9_-]{20,}|\brubygems_[a-f0-9]{48}\b",
    ),
    rule(
        "cloud-token",
        "tokens of Cloudflare, Databricks, DigitalOcean, Doppler, Fly, Heroku, Pulumi, Render, Supabase, Tailscale, Terraform, Vault, Vercel",
        &["v1.0-"],
        r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}",
    ),
    variant("cloud-token", &["dapi"], r"\bdapi[a-f0-9]{32}\b"),
    variant("cloud-token", &["doo_v1_", "dop_v1_", "dor_v1_"], r"\bdo[opr]_v1_[a-f0-9]{64}"),
    variant("cloud-token", &["dp."], r"\bdp\.(?:pt|st|ct|scim|audit)\.[A-Za-z0-9_.-]{40,}"),
    variant("cloud-token", &["flyv1"], r"\bFlyV1 [A-Za-z0-9+/=_,-]{40,}"),
    variant("cloud-token", &["fo1_"], r"\bfo1_[A-Za-z0-9_-]{43}"),
    variant("cloud-token", &["hrku-"], r"\bHRKU-[A-Za-z0-9_-]{36,}"),
    variant("cloud-token", &["pul-"], r"\bpul-[a-f0-9]{40}\b"),
    variant("cloud-token", &["rnd_"], r"\brnd_[A-Za-z0-9]{28,}"),
    variant("cloud-token", &["sbp_", "sb_secret_"], r"\bsbp_[a-f0-9]{40}\b|\bsb_secret_[A-Za-z0-9_-]{20,}"),
    variant("cloud-token", &["tskey-"], r"\btskey-[a-z]+-[A-Za-z0-9-]{20,}"),
    variant("cloud-token", &["atlasv1"], r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}"),
    variant("cloud-token", &["hvs.", "hvb.", "hvr."], r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    variant("cloud-token", &["vcp_"], r"\bvcp_[A-Za-z0-9]{24,}"),
    rule(
        "service-token",
        "tokens of Airtable, Asana, Atlassian, Figma, Grafana, Linear, Mailgun, New Relic, Notion, PlanetScale, Postman, SendGrid, Sentry, Shopify, Square, Telegram, Typeform",
        &["pat"],
        r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b",
    ),
    variant("service-token", &["atatt3", "atctt3"], r"\bAT[AC]TT3[A-Za-z0-9_=.-]{60,}"),
    variant("service-token", &["figd_"], r"\bfigd_[A-Za-z0-9_-]{38,}"),
    variant("service-token", &["glc_", "glsa_"], r"\bglc_[A-Za-z0-9+/=]{32,}|\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    variant("service-token", &["lin_api_", "lin_oauth_"], r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    variant("service-token", &["key-"], r"\bkey-[a-f0-9]{32}\b"),
    variant("service-token", &["nrak-"], r"\bNRAK-[A-Z0-9]{27}"),
    variant("service-token", &["ntn_"], r"\bntn_[A-Za-z0-9]{40,}"),
    variant("service-token", &["secret_"], r"\bsecret_[A-Za-z0-9]{43}\b"),
    variant("service-token", &["pscale_"], r"\bpscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,}"),
    variant("service-token", &["pmak-"], r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    variant("service-token", &["sg."], r"\bSG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    variant("service-token", &["sntrys_", "sntryu_"], r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    variant("service-token", &["shpat_", "shpca_", "shppa_", "shpss_"], r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    variant("service-token", &["sq0"], r"\bsq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}"),
    variant("service-token", &[":aa"], r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    variant("service-token", &["tfp_"], r"\btfp_[A-Za-z0-9_.=-]{40,}"),
    rule(
        "sessionlog-token",
        "tokens of sessionlog",
        &["sl_"],
        r"\bsl_[0-9a-z]{4,40}_[0-9a-z]{40,80}\b",
    ),
    rule(
        "jwt",
        "JSON web tokens",
        &["eyj"],
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ),
    rule(
        "password-hash",
        "hashed passwords: of htpasswd, /etc/shadow and LDAP (crypt, bcrypt, yescrypt, Argon2, SHA)",
        &["$apr1$", "$1$", "$5$", "$6$", "$y$", "$gy$", "$7$", "$2a$", "$2b$", "$2x$", "$2y$", "$argon2"],
        r"\${1,2}(?:(?:apr1|1)\${1,2}[./A-Za-z0-9]{1,8}\${1,2}[./A-Za-z0-9]{22}|[56]\${1,2}(?:rounds=[0-9]{1,9}\${1,2})?[./A-Za-z0-9]{1,16}\${1,2}[./A-Za-z0-9]{43,86}|(?:g?y|7)\${1,2}[./A-Za-z0-9]{1,24}\${1,2}[./A-Za-z0-9]{1,86}\${1,2}[./A-Za-z0-9]{43}|2[abxy]\${1,2}[0-9]{2}\${1,2}[./A-Za-z0-9]{53}|argon2[a-z]{1,2}\${1,2}(?:v=[0-9]{1,3}\${1,2})?m=[0-9,tp=]{5,40}\${1,2}[A-Za-z0-9+/]{8,88}\${1,2}[A-Za-z0-9+/]{16,88})",
    ),
    variant("password-hash", &["{sha", "{ssha"], r"(?i-u:\{S?SHA(?:256|384|512)?\})(?P<s>[A-Za-z0-9+/]{27,}={0,2})"),
    rule(
        "url-password",
        "passwords and tokens in addresses: scheme://user:password@host",
        &["://"],
        r#"\b[a-zA-Z][a-zA-Z0-9+.-]+://[^\s/:@"'<>\\\[]*:(?P<s>[^\s/@"'<>\\]+)@"#,
    )
    .with_test(MatchTest::NotPlaceholder),
    variant("url-password", &["://"], r"\bhttps?://(?P<s>[A-Za-z0-9_-]{20,})@").with_test(MatchTest::Random),
    rule(
        "authorization",
        "credentials in headers: Authorization, Bearer, X-Api-Key, private tokens",
        &["authorization", "bearer", "x-api-key", "private-token", "x-auth-token"],
        r#"(?i)(?:\bauthorization\\*["']?\s{0,5}[:=]\s{0,5}\\*["']?(?:basic|bearer|digest|token|apikey)\s{1,5}|\bbearer\s{1,5}|\b(?:x-api-key|private-token|x-auth-token)\\*["']?\s{0,5}[:=]\s{0,5}\\*["']?)(?P<s>[A-Za-z0-9._~+/=-]{12,})"#,
    )
    .with_test(MatchTest::Random),
    variant(
        "authorization",
        &["basic "],
        r#"(?i)\bauthorization\\*["']?\s{0,5}[:=]\s{0,5}\\*["']?basic\s{1,5}(?P<s>[A-Za-z0-9+/]{8,}={0,2})"#,
    )
    .with_test(MatchTest::PasswordInProse),
    rule(
        "cookie",
        "cookies in headers",
        &["cookie:"],
        r"(?i)\b(?:set-)?cookie:[ \t]{0,5}(?P<s>[A-Za-z0-9_.-]+=[^\s;]{12,}(?:; ?[A-Za-z0-9_.-]+=[^\s;]*)*)",
    )
    .with_test(MatchTest::Random),
    rule(
        "netrc",
        "passwords in .netrc",
        &["machine ", "default login"],
        r"\b(?:machine\s{1,9}\S+|default)\s{1,9}login\s{1,9}\S+\s{1,9}password\s{1,9}(?P<s>\S+)",
    )
    .with_test(MatchTest::NotPlaceholder),
    rule(
        "command-password",
        "passwords and tokens given to a command: --password x, curl -u user:x, mysql -px, sshpass -p x, docker login -p x, redis-cli -a x, --from-literal=name=x; in PowerShell -Password \"x\", ConvertTo-SecureString \"x\", $env:TOKEN = \"x\"",
        &["-pass", "-token", "-api", "-secret", "-pwd", "-access-key"],
        r#"--(?:[a-z0-9]+-){0,4}(?:password|passphrase|passwd|pass|pwd|token|api-?key|secret|secret-key|access-key)[= ](?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#,
    )
    .with_test(MatchTest::OptionValue),
    variant(
        "command-password",
        &["curl"],
        r#"\bcurl\b[^\n|;]*?\s(?:-u|--user)[= ]?["']?[A-Za-z0-9._@+-]+:(?P<s>[^\s"'|;&<>]{4,})"#,
    )
    .with_test(MatchTest::NotPlaceholder),
    variant("command-password", &["http -a", "https -a"], r#"\bhttps? -a ["']?[A-Za-z0-9._@+-]+:(?P<s>[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["mysql", "mariadb"], r#"\b(?:mysql[a-z]*|mariadb(?:-[a-z]+)?)\s(?:[^\n|;]*?\s)?-p(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["sshpass"], r#"\bsshpass\s{1,5}(?:-v\s{1,5})?-p\s{0,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["login"], r#"\b(?:docker|podman|buildah|nerdctl|skopeo|helm|oras|crane|oc|az)(?:\s{1,5}[a-z]+){0,2}\s{1,5}login\b[^\n|;]*?\s-p\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["redis-cli"], r#"\bredis-cli\b[^\n|;]*?\s-a\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["ldap"], r#"\bldap[a-z]+\b[^\n|;]*?\s-w\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["mongo"], r#"\bmongo[a-z]*\b[^\n|;]*?\s-p\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["sqlcmd", "mosquitto_", "zip "], r#"\b(?:sqlcmd|mosquitto_[a-z]+|(?:un)?zip)\b[^\n|;]*?\s-P\s{0,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["7z "], r#"\b7z\s[^\n|;]*?\s-p(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["smbclient", "rpcclient"], r#"\b(?:smb|rpc)client\b[^\n|;]*?\s-U\s{0,5}["']?[^\s"'%]+%(?P<s>[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["storepass", "keypass"], r#"-(?:src|dest)?(?:store|key)pass\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["pass:"], r#"-pass(?:in|out)?\s{1,5}["']?pass:(?P<s>[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["chpasswd"], r#"\becho\s{1,5}["']?[^\s:"'|]+:(?P<s>[^\s"'|;&<>]{3,})["']?\s{0,5}\|\s{0,5}(?:sudo\s{1,5})?chpasswd"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["sudo -s"], r#"\becho\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})\s{0,5}\|\s{0,5}sudo -S"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["htpasswd"], r#"\bhtpasswd\s{1,5}-[A-Za-z]*b[A-Za-z]*\s{1,5}\S+\s{1,5}\S+\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["from-literal"], r#"--from-literal[= ]["']?[A-Za-z0-9_.-]+=(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["configure set"], r#"\bconfigure set \S*(?:secret_access_key|session_token)\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["requirepass", "masterauth"], r#"\b(?:requirepass|masterauth)\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>]{3,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["-password", "-passphrase", "-token", "-api", "-secret", "-access"], r#"(?i)\B-[a-z]{0,20}(?:password|passphrase|token|api-?key|secret(?:-?key)?|access-?key)\s{1,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*")"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["securestring"], r#"(?i)\bConvertTo-SecureString\s{1,5}(?:-(?:AsPlainText|Force|String)\s{1,5}){0,3}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'|;&<>()-][^\s"'|;&<>()]{2,})"#)
        .with_test(MatchTest::OptionValue),
    variant("command-password", &["$env:"], r#"(?i)\$env:(?:[a-z0-9]{1,30}_){0,5}(?:token|secret|password|passphrase|passwd|pwd|pass|api_?key|(?:access|secret|private)_?key|credential)\s{0,5}=\s{0,5}(?P<s>'[^'\n]{4,}'|\\*"[^"\\\n]{4,}\\*")"#)
        .with_test(MatchTest::OptionValue),
    rule(
        "password",
        "quoted values that a password's name stands before, in code and settings",
        &["password", "passwd", "passphrase", "pwd"],
        r#"(?i)(?:password|passwd|passphrase|pwd)\\*["']?\s{0,5}(?:=>|:=|=|:)\s{0,5}\\*["'](?P<s>[^\s"'\\]{4,})\\*["']"#,
    )
    .with_test(MatchTest::NotPlaceholder),
    rule(
        "environment",
        "variables of an environment that are called a password",
        &["password", "passwd", "passphrase", "_pwd", "_pass"],
        r#"(?m)(?:^|[\s;])(?:export\s{1,5})?[A-Z0-9_]*(?:PASSWORD|PASSWD|PASSPHRASE|_PWD|_PASS)=(?P<s>[^\s"';]{4,})"#,
    )
    .with_test(MatchTest::NotPlaceholder),
    rule(
        "password-line",
        "lines of settings that are called a password",
        &["password", "passwd", "passphrase"],
        r#"(?im)^[ \t]*[a-z0-9_.-]*(?:password|passwd|passphrase)[ \t]{0,5}[=:][ \t]{0,5}(?P<s>[^\s"']{4,})[ \t]*\r?$"#,
    )
    .with_test(MatchTest::SettingValue),
    rule(
        "secret",
        "random values that a key's, token's or secret's name stands before",
        &["secret", "token", "api_key", "apikey", "api-key", "access_key", "private_key", "credential"],
        r#"(?i)\b[A-Za-z0-9_.-]*(?:secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)[A-Za-z0-9_]{0,20}\\*["']?\s{0,5}(?:=>|:=|=|:)\s{0,5}\\*["']?(?P<s>[A-Za-z0-9_.~+/=-]{12,})"#,
    )
    .with_test(MatchTest::RandomNotPublic),
    rule(
        "assignment",
        "values that a secret's name is given in text: password=x, ?token=x, api_key: x, Pwd=x; quoted or not; the api key is x",
        &[
            "password", "passwd", "passphrase", "passcode", "pwd", "_pass", "-pass", "pass=", "pass:", "secret", "token",
            "api_key", "apikey", "api-key", "access_key", "accesskey", "private_key", "privatekey",
            "signing", "encryption", "master_key", "credential", "jwt",
        ],
        r#"(?i)[A-Za-z0-9_.-]{0,40}(?:passw(?:or)?d|passphrase|passcode|pwd|[_-]pass|[a-z]Pass|secret|token|api[_-]?key|(?:access|private|signing|encryption|master|account)[_-]?key|credential|jwt)[A-Za-z0-9_-]{0,20}\\*["']?\]?[ \t]{0,5}(?:=>|:=|=|:)[ \t]{0,5}(?P<s>'[^'\n]{3,}'|\\*"[^"\\\n]{3,}\\*"|[^\s"'`;|<>]{3,})"#,
    )
    .with_test(MatchTest::AssignedValue),
    variant(
        "assignment",
        &[
            "password',", "password\",", "secret',", "secret\",", "_key',", "_key\",", "token',",
            "token\",",
        ],
        r#"["'][A-Za-z0-9_.-]{4,60}["'],[ \t]{0,5}(?P<s>'[^'\n]{3,}'|"[^"\\\n]{3,}")[ \t]{0,5}\)"#,
    )
    .with_test(MatchTest::AssignedValue),
    variant(
        "assignment",
        &["password>", "passwd>", "passphrase>", "secret>", "token>", "apikey>", "password\">"],
        r#"(?i)<(?:[a-z]{1,20} name=")?[a-z0-9_.:-]{0,40}(?:password|passwd|passphrase|secret|token|apikey)"?>(?P<s>[^<>\s]{3,})</"#,
    )
    .with_test(MatchTest::OptionValue),
    variant(
        "assignment",
        &["password", "identified by"],
        r"(?i)\b(?:password|identified by)\s{1,5}(?P<s>'[^'\n]{4,}')",
    )
    .with_test(MatchTest::OptionValue),
    variant(
        "assignment",
        &["password", "passphrase"],
        r#"(?i)(?:password|passphrase)[ \t]{1,5}(?:(?:is|was):?[ \t]{1,5})?(?P<s>[^\s"'`;|<>/]{6,})"#,
    )
    .with_test(MatchTest::PasswordInProse),
    variant(
        "assignment",
        &["key is", "key was", "key lautet", "key ist", "token is", "token was", "secret is"],
        r"(?i)\b(?:(?:secret|access|api|private|signing|encryption|master|account)[ _-]key|token|secret)[ \t]{1,5}(?:is|was|lautet|ist):?[ \t]{1,5}(?P<s>[a-z0-9_~+/=-]{16,})",
    )
    .with_test(MatchTest::Random),
    variant(
        "assignment",
        &["lautet", "password is:", "passphrase is:"],
        r#"(?im)\b(?:(?:kennwort|passwort|passphrase|password)[ \t]{1,5}lautet:?|(?:password|passphrase)[ \t]{1,5}is:)[ \t]{1,5}(?P<s>[^\s"'`;|<>]{6,}[^\s"'`;|<>.,!])[.,!]?[ \t]*\r?$"#,
    )
    .with_test(MatchTest::OptionValue),
    variant("assignment", &[":5432:"], r"(?m)^[^:\s]+:5432:[^:\s]+:[^:\s]+:(?P<s>\S{3,})$").with_test(MatchTest::OptionValue),
    rule(
        MEMBER,
        "members of JSON whose name says so: password, passphrase, db_pass, apiKey, token, client_secret, credential, authorization",
        &[],
        r"\z.",
    ),
];
