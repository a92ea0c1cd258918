//! Secrets in other forms than verbatim: escaped, in a list of lines, hashed, in PowerShell; and
//! look-alikes. Every secret here is generated where it is used.

use sessionlog::secrets::{MaskingReport, Recogniser};

use super::recogniser::{drawn, found, hex};

/// Removes the secrets of a text.
fn remove_secrets(text: &str) -> String {
    let mut report = MaskingReport::default();
    Recogniser::default().mask_json(text, &mut report).unwrap_or_else(|| text.to_owned())
}

/// Returns the text with some characters escaped: in JSON once and twice, in a URL, in HTML.
fn escaped_forms(text: &str) -> Vec<String> {
    let with = |escape: &dyn Fn(char) -> String| {
        let each = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { escape(c) };
        text.chars().map(each).collect::<String>()
    };
    let code = u32::from;
    vec![
        with(&|c| format!("\\u{:04x}", code(c))),
        with(&|c| format!("\\\\u{:04X}", code(c))),
        with(&|c| format!("\\u{{{:x}}}", code(c))),
        with(&|c| format!("\\x{:02x}", code(c))),
        with(&|c| format!("%{:02X}", code(c))),
        with(&|c| format!("%25{:02x}", code(c))),
        with(&|c| format!("&#{};", code(c))),
        with(&|c| format!("&amp;#x{:x};", code(c))),
        with(&|c| format!("\\u0025{:02x}", code(c))),
        with(&|c| if c == '_' { "\\_".to_owned() } else { c.to_string() }),
    ]
}

#[test]
fn a_secret_is_masked_under_any_escaping() {
    let (random, digits) = (drawn(60), hex(64));
    for (text, secret) in [
        (format!("a ghp_{} b", &random[..36]), format!("ghp_{}", &random[..36])),
        (format!("a sk-ant-api03-{random} b"), format!("sk-ant-api03-{random}")),
        (format!("a dop_v1_{digits} b"), format!("dop_v1_{digits}")),
        (format!("{{\"token\": \"{}\"}} b", &random[..12]), random[..12].to_owned()),
        (format!("login?password={}&x=1", &random[..8]), random[..8].to_owned()),
        (format!("postgres://app:{}@db/x", &random[..9]), random[..9].to_owned()),
        (format!("Authorization: Bearer {random} "), random.clone()),
        ("<private why=\"x\">aardvark</private> b".to_owned(), "aardvark".to_owned()),
    ] {
        for text in escaped_forms(&text) {
            let plain: String = secret.chars().filter(char::is_ascii_alphanumeric).collect();
            for text in [text.clone(), serde_json::json!({"a": [{"b": text}], "c": 1}).to_string()]
            {
                let left = remove_secrets(&text);
                assert!(!left.contains(&plain[plain.len() - 8..]), "{text} became {left}");
                assert!(left.contains("[redacted:") || left.contains("[private]"), "{left}");
                assert_eq!(remove_secrets(&left), left, "once is enough: {text}");
            }
        }
    }
    // The surrounding text is unchanged.
    let token = format!("ghp_{}", drawn(36));
    for (before, behind) in [("C:\\new\\n", "\\nnext"), ("a\\\\n", "\\\" %20b"), ("%0A", "%0Ax")] {
        let text = format!("{before}{token}{behind}");
        assert_eq!(remove_secrets(&text), format!("{before}[redacted:github-token]{behind}"));
    }
}

#[test]
fn a_private_key_split_into_list_lines_is_masked() {
    let body: Vec<String> = (0..6).map(|at| drawn(64 + at)).collect();
    for (first, last) in [("+", "+"), ("-", "-"), ("", ""), (" ", " "), ("7: ", "  12→")] {
        let mut lines = vec![format!("{first}-----BEGIN RSA {} KEY-----", "PRIVATE")];
        lines.extend(body.iter().map(|line| format!("{last}{line}")));
        lines.push(format!("{last}-----END RSA {} KEY-----", "PRIVATE"));
        lines.push(format!("{last}the end"));
        for lines in [&lines[..], &lines[..4], &lines[3..]] {
            let text = serde_json::json!({ "hunks": [{ "lines": lines, "n": 1 }] }).to_string();
            let left = remove_secrets(&text);
            assert!(body.iter().all(|line| !left.contains(line)), "{first}: {left}");
            assert_eq!(remove_secrets(&left), left, "once is enough");
        }
        assert!(remove_secrets(&serde_json::json!(lines).to_string()).contains("the end"));
    }
    // In a text that is not JSON as well.
    let text = format!(
        "Answer: [\"-----BEGIN {} KEY-----\", \"{}\",\"{}\"] 1",
        "PRIVATE", body[0], body[1]
    );
    assert_eq!(remove_secrets(&text), "Answer: [\"[redacted:private-key]\"] 1");
    let spans = r#"["a <private why='x'>", "aardvark", "b</private> c", "d"]"#;
    assert_eq!(remove_secrets(spans), r#"["a [private]", "[private]", "[private] c", "d"]"#);
    // Strings of members, and of other lists, are not lines of one text.
    let apart = format!(r#"{{"a":"-----BEGIN {} KEY-----","b":["{}"]}}"#, "PRIVATE", body[0]);
    assert_eq!(remove_secrets(&apart), apart);
}

#[test]
fn hashed_and_powershell_passwords_are_removed_and_look_alikes_kept() {
    let (b64, random) = (drawn(86), drawn(12));
    let hashes = [
        format!("$apr1${}${}", &b64[..8], &b64[..22]),
        format!("$$apr1$${}$${}", &b64[..8], &b64[..22]),
        format!("$1${}${}", &b64[..8], &b64[..22]),
        format!("$5${}${}", &b64[..16], &b64[..43]),
        format!("$6$rounds=5000${}${b64}", &b64[..16]),
        format!("$6${}${b64}", &b64[..16]),
        format!("$y$j9T${}${}", &b64[..22], &b64[..43]),
        format!("$2y$10${}", &b64[..53]),
        format!("$argon2id$v=19$m=65536,t=3,p=4${}${}", &b64[..22], &b64[..43]),
    ];
    for hash in &hashes {
        for text in [
            format!("ada:{hash}"),
            format!("root:{hash}:19000:0:99999:7:::"),
            format!("htpasswd has \"{hash}\"\n"),
        ] {
            assert_eq!(
                remove_secrets(&text),
                text.replace(hash, "[redacted:password-hash]"),
                "{text}"
            );
        }
    }
    for (before, secret, behind, rule) in [
        ("ada:{SHA}", &*format!("{}=", &b64[..27]), "\n", "password-hash"),
        ("userPassword: {SSHA}", &*format!("{}==", &b64[..38]), "", "password-hash"),
        ("$env:TOKEN = \"", "correct-horse", "\"", "command-password"),
        ("$env:DB_PASSWORD='", "correct horse", "'", "command-password"),
        ("$Env:Api_Key = \"", &random, "\"; ls", "command-password"),
        (
            "ConvertTo-SecureString \"",
            "correct horse",
            "\" -AsPlainText -Force",
            "command-password",
        ),
        ("ConvertTo-SecureString -AsPlainText -Force -String '", &random, "'", "command-password"),
        ("ConvertTo-SecureString ", &random, " -AsPlainText", "command-password"),
        ("New-LocalUser ada -Password \"", "correct horse", "\"", "command-password"),
        ("Connect-Thing -ApiKey '", "correct-horse", "' -Verbose", "command-password"),
    ] {
        let text = format!("{before}{secret}{behind}");
        assert_eq!(remove_secrets(&text), format!("{before}[redacted:{rule}]{behind}"), "{text}");
    }
    for text in [
        "echo $6 $1 $5$6 \"$2\" $1$2",
        "awk '{print $6}' and sed 's/$y$//'",
        "a password is written {SHA} and then its digest",
        "{SHA}short",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "bcrypt costs: $2b$10$, $2b$12$, $2y$12$ take 60 to 250 ms",
        "$argon2id$v=19$m=65536,t=3,p=4$ begins each",
        "root:!:19000:0:99999:7:::",
        "root:*:19000:0:99999:7:::",
        "$env:PATH = \"C:\\Program Files\\Git\\bin;$env:PATH\"",
        "$env:TOKEN = \"$token\"",
        "$env:TOKEN_FILE = \"C:\\secrets\\token.txt\"",
        "$env:API_KEY = Get-Secret build",
        "ConvertTo-SecureString $plain -AsPlainText -Force",
        "ConvertTo-SecureString (Read-Host) -AsPlainText",
        "Get-Thing -Password $password -NextToken \"CAUQAA9f8e7d6c\"",
        "the -Password parameter takes a SecureString",
        "q=password%20reset&lang=en",
        "50%3D half, C:\\new\\token\\x, \\d+\\.\\d+ and &quot;token&quot; &amp; more",
        "%22nextPageToken%22%3A%22CAUQAA9f8e7d6c5b4a%22",
    ] {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn many_escapes_and_tags_take_linear_time() {
    // Scanned from each of its starts a text of this size would take minutes.
    let size = 1 << 20;
    for part in ["\\", "\\n", "%25", "&amp;", "<private a=\"", "<private a='", "</private", "\\u00"]
    {
        let text = part.repeat(size / part.len());
        let left = Recogniser::default().mask_text(&text, &mut MaskingReport::default());
        let expected = part.starts_with("<private").then_some("[private]");
        assert_eq!(left.as_deref(), expected, "{part}");
    }
}
