// Sessions that the checks look at: one as an agent leaves it, a fork of it, one of 100 000 events.

const call = (id, name, input, result, failed = false, more = {}) => [
    { type: "agent.tool_use", call_id: id, name, input, ...more },
    { type: "agent.tool_result", call_id: id, content: result, is_error: failed, ...more },
];
const request = (cached, output) => ({ type: "span.model_request_end", model: "model-a", model_usage: { input_tokens: 900, cache_read_input_tokens: cached, output_tokens: output } });
// A square of 10 by 10 pixels.
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGP4z8CAB+GTG8HSALfKY52fTcuYAAAAAElFTkSuQmCC";

/** A session with everything that the screens draw. */
export async function exampleSession(server) {
    await server.call("/v1/sessions", { id: "rain-report", title: "Round the tax on the weather report", workspace: "/work/wx", metadata: { client: "claude-code" } });
    const events = [
        { type: "session.status_running", source: "startup" },
        { type: "context.injected", what: "earlier_sessions", text: "Earlier sessions of this project:\n- Prices are whole cents.\n- Tests run with pytest -q", begin: 0, until: 0 },
        { type: "user.message", content: "The report shows **wrong totals** for rain days.\n\nPlease find out why, fix it and run the tests. See https://example.org/issues/88 for the report." },
        { type: "agent.message", content: "I look at the report first, then at the rounding.\n\n## Plan\n1. read `wx/report.py`\n2. run the tests\n\n```python\ntotal = round(sum(day.tax for day in days))\n```\n" },
        ...call("c1", "Read", { file_path: "/work/wx/report.py" }, "1\tdef total(days):\n2\t    return sum(round(d.tax) for d in days)\n"),
        ...call("c2", "Bash", { command: "pytest -q", description: "Run the tests" }, "F..\n=== FAILURES ===\nE   assert 12 == 13\n1 failed, 2 passed in 0.31s", true),
        ...call("c3", "Edit", { file_path: "/work/wx/report.py", old_string: "def total(days):\n    return sum(round(d.tax) for d in days)", new_string: 'def total(days):\n    """Cents are rounded once, at the end."""\n    return round(sum(d.tax for d in days))' }, "The file was updated."),
        ...call("c4", "Bash", { command: "pytest -q" }, "...\n3 passed in 0.30s"),
        request(60_000, 800),
        ...call("c5", "Task", { description: "Find other roundings", subagent_type: "Explore", prompt: "Find each use of round" }, "Two other places round per day."),
        ...[0, 1, 2, 3].flatMap((n) => call(`s${n}`, "Grep", { pattern: `round\\(${n}`, path: "wx" }, n === 3 ? "no such directory" : "wx/a.py:1: round(x)", n === 3, { session_thread_id: "explore-1" })),
        { type: "user.message", content: [{ type: "text", text: "Is this the icon that the report uses?" }, { type: "image", source: { type: "base64", media_type: "image/png", data: PICTURE } }] },
        { type: "agent.message", content: `It is the icon of the report. While there I listed where days are rounded:\n\n${[...Array(9).keys()].map((n) => `- wx/day_${n + 1}.py rounds its tax ${n === 2 || n === 6 ? "before the sum" : "not at all"}`).join("\n")}` },
        request(150_000, 1200),
    ];
    await server.append("rain-report", events);
    const end = events.length;
    await server.append("rain-report", [
        { type: "context.compacted", trigger: "auto", summary: "The total rounds once, at the end; tests pass. Two other places round per day: wx/a.py, wx/b.py.", dropped: [{ from: 2, to: end - 2 }], kept: [{ from: end - 2, to: end }] },
        { type: "context.injected", what: "continuation", text: "You continue a session. Task: wrong totals for rain days.\nDone: rounding once in wx/report.py.\nNext: the two other places.", begin: end, until: end },
        { type: "user.message", content: "Fix the two other places, too." },
        { type: "agent.thinking", content: "Both are alike; a helper would do." },
        ...call("w1", "Write", { file_path: "/work/wx/cents.py", content: "def cents(value):\n    return round(value)\n" }, "File created"),
        request(21_000, 400),
        ...call("w2", "Bash", { command: "pytest -q tests/test_cents.py" }, "2 failed, 1 passed", true),
        { type: "session.status_idle" },
    ]);
    await server.call("/v1/sessions/rain-report/memory", { kind: "semantic", text: "Totals are rounded once, at the end, never per day.", topic: "rounding", importance: 8, tags: ["rule"] });
    await server.call("/v1/sessions/rain-report/memory", { kind: "procedural", name: "run-tests", text: "Run `pytest -q` in the root; the weather fixtures need TZ=UTC." });
    await server.call("/v1/sessions/rain-report/checkpoints", { label: "tests green", at: 12 });
    await server.call("/v1/sessions/rain-report/fork", { at: 12, id: "rain-fork", title: "Another way to round" });
    await server.append("rain-fork", [{ type: "user.message", content: "Use decimals instead." }, { type: "agent.message", content: "I replace floats by Decimal." }]);
}

/** A session of `count` events: a message each fifty, between them calls with results, and status. */
export async function bigSession(server, count) {
    await server.call("/v1/sessions", { id: "big", title: "A hundred thousand events", workspace: "/work/big" });
    const one = (n) => {
        if (n % 50 === 0) return { type: "user.message", content: `Message ${n}: continue with part ${n / 50}.` };
        if (n % 50 === 49) return { type: "agent.message", content: `Part ${Math.floor(n / 50)} is done. ${"It took some words to say so. ".repeat(n % 7)}` };
        if (n % 10 === 8) return { type: "session.status_running" };
        if (n % 10 === 9) return { type: "agent.thinking", content: `thinking of ${n}` };
        return n % 2 === 1
            ? { type: "agent.tool_use", call_id: `c${n}`, name: "Bash", input: { command: `make part-${n}` } }
            : { type: "agent.tool_result", call_id: `c${n - 1}`, content: `made ${n}`, is_error: n % 5000 === 2502 };
    };
    for (let from = 0; from < count; from += 1000) {
        await server.append("big", Array.from({ length: Math.min(1000, count - from) }, (_, n) => one(from + n)));
    }
    // One event of 3 MB, at the end.
    await server.append("big", [{ type: "agent.tool_use", call_id: "huge", name: "Bash", input: { command: "cat huge" } }, { type: "agent.tool_result", call_id: "huge", content: "0123456789abcdef\n".repeat(180_000) }]);
}
