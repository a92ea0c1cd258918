//! The calls in a tracer's output: their start and their end, even where threads interrupt each
//! other's lines. It must not interpret a call.

use std::collections::BTreeMap;

/// A call of a thread, at its start or after its end.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub thread: &'a str,
    /// Name and arguments, as far as they were printed at its start.
    pub begun: &'a str,
    /// Line of its start.
    pub since: usize,
    /// Text at its end, the result last, and its line.
    pub ended: Option<(&'a str, usize)>,
}

impl<'a> Call<'a> {
    pub fn name(&self) -> &'a str {
        self.begun.split('(').next().unwrap_or_default()
    }

    /// Returns its return value, once it has ended.
    pub fn result(&self) -> Option<&'a str> {
        Some(self.ended?.0.rsplit_once(" = ")?.1)
    }

    /// Returns true if it has ended with success.
    pub fn succeeded(&self) -> bool {
        let failed = |result: &str| result.starts_with(['-', '?']) || result.contains("(INJECTED)");
        self.result().is_some_and(|result| !failed(result))
    }

    /// Returns its arguments, of which the last may be printed at its end.
    fn arguments(&self) -> String {
        let rest = self.ended.map_or("", |(text, _)| text);
        let whole =
            if rest == self.begun { rest.to_owned() } else { format!("{}{rest}", self.begun) };
        whole.rsplit_once(" = ").map_or(whole.clone(), |(arguments, _)| arguments.to_owned())
    }

    /// Returns true if a write wrote fewer bytes than requested.
    pub fn is_short_write(&self) -> bool {
        let arguments = self.arguments();
        let given = match self.name() {
            "pwrite64" => arguments.rsplit(", ").nth(1),
            "pwritev2" => arguments.split("iov_len=").nth(1),
            _ => None,
        };
        let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        let (given, taken): (Option<u64>, Option<u64>) =
            (given.and_then(number), self.result().and_then(number));
        self.succeeded() && given.zip(taken).is_some_and(|(given, taken)| taken < given)
    }
}

/// Calls `tell` twice for each call: at its start and at its end.
pub fn each<'a>(trace: &'a str, mut tell: impl FnMut(Call<'a>)) {
    let mut open: BTreeMap<&str, Call<'a>> = BTreeMap::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        let begins = |begun| Call { thread, begun, since: at, ended: None };
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            tell(begins(begun));
            open.insert(thread, begins(begun));
        } else if let Some(end) = rest.strip_prefix("<... ") {
            if let Some(call) = open.remove(thread) {
                tell(Call { ended: Some((end, at)), ..call });
            }
        } else if rest.starts_with(|c: char| c.is_ascii_lowercase()) {
            tell(begins(rest));
            tell(Call { ended: Some((rest, at)), ..begins(rest) });
        }
    }
}

#[test]
fn a_trace_records_short_writes_and_failed_calls() {
    let cases = [
        (r#"1 pwrite64(7</d/0>, ""..., 20, 0) = 20"#, true, false),
        (r#"1 pwrite64(7</d/0>, ""..., 20, 4096) = 12"#, true, true),
        (
            "1 pwrite64(7</d/0>, \"\"..., 20, 0 <unfinished ...>\n1 <... pwrite64 resumed>) = 3",
            true,
            true,
        ),
        (
            r#"1 pwritev2(7</d/0>, [{iov_base=""..., iov_len=30}], 1, 0, RWF_DSYNC) = 30"#,
            true,
            false,
        ),
        (r#"1 pwritev2(7</d/0>, [{iov_base=""..., iov_len=30}], 1, 0, RWF_DSYNC) = 9"#, true, true),
        ("1 pwrite64(7</d/0>, \"\"..., 20, 0) = -1 EFBIG (File too large)", false, false),
        ("1 renameat(7</d>, \"a\", 8</d>, \"b\") = 0", true, false),
        ("1 renameat(7</d>, \"a\", 8</d>, \"b\") = ?", false, false),
        ("1 fdatasync(7</d>) = 0 (INJECTED)", false, false),
    ];
    for (trace, succeeded, short) in cases {
        let mut told = Vec::new();
        each(trace, |call| told.push(call));
        let [begun, ended] = told[..] else { panic!("{told:?}") };
        assert!(begun.ended.is_none() && !begun.succeeded(), "{trace}");
        assert_eq!((ended.succeeded(), ended.is_short_write()), (succeeded, short), "{trace}");
    }
}
