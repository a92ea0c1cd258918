//! The targets of docs/performance.md as data: a row, the rows compared with, and the bound. It
//! must not measure.

use super::{
    cell::{Bound, Target},
    runner::Row,
};

const POSTGRES_AND_REDIS: &[&str] = &["postgres.append.1", "redis.append.1"];
const FLOOR_1: &[&str] = &["floor.append.1", "floor.append.1.once"];
const FLOOR_64: &[&str] = &[
    "floor.append.64",
    "floor.append.64.once",
    "floor.append.64.tasks",
    "floor.append.64.tasks.once",
];

/// A shown figure follows its target, with the same number.
pub(super) const TARGETS: &[Target] = &[
    times_min_target("P1", "engine.append.1", FLOOR_1, 0.9),
    shown_target("P1", "engine.lasting.1", FLOOR_1),
    times_min_target("P1", "engine.append.64", FLOOR_64, 0.8),
    shown_target("P1", "engine.lasting.64", FLOOR_64),
    times_min_target("P2", "http.append.json.1", POSTGRES_AND_REDIS, 1.0),
    shown_target("P2", "http.append.json.1.token", &["http.append.json.1"]),
    times_min_target("P2", "http.append.protobuf.1", POSTGRES_AND_REDIS, 1.0),
    times_min_target("P2", "http.append.json.64", &["redis.append.64"], 0.9),
    shown_target("P2", "http.append.json.64.token", &["http.append.json.64"]),
    times_min_target("P2", "http.append.protobuf.64", &["redis.append.64"], 0.9),
    cost("P2c", "http.append.json.1", POSTGRES_AND_REDIS, 1.1),
    cost("P2c", "http.append.json.64", &["redis.append.64"], 1.8),
    times_min_target("P2b", "http.stream.64", &["redis.append.64"], 2.5),
    shown_target("P2b", "http.stream.64", &["redis.pipeline.64"]),
    times_min_target("P3", "engine.append.64.sessions", &["engine.append.64"], 0.85),
    shown_target("P3", "engine.lasting.64.sessions", &["engine.lasting.64"]),
    shown_target("P3", "floor.lasting.64.sessions", &["floor.lasting.64"]),
    shown_target("P3", "http.append.json.64.sessions", &["http.append.json.64"]),
    times_min_target("P4", "engine.append.1.keys", &["engine.append.1"], 0.85),
    times_min_target("P4", "engine.append.64.keys", &["engine.append.64"], 0.85),
    shown_target("P4", "http.append.json.1.keys", &["http.append.json.1"]),
    shown_target("P4", "http.append.json.64.keys", &["http.append.json.64"]),
    times_min_target("P4", "engine.slice.1.keys", &["engine.slice.1"], 0.7),
    times_min_target("P4", "engine.slice.64.keys", &["engine.slice.64"], 0.7),
    shown_target("P4", "engine.slice.cold.1.keys", &["engine.slice.cold.1"]),
    times_min_target("P5", "slice.json.1", &["postgres.slice.1", "redis.slice.1"], 1.35),
    times_min_target("P5", "slice.json.64", &["postgres.slice.64", "redis.slice.64"], 1.35),
    times_min_target("P5", "slice.protobuf.1", &["postgres.slice.1", "redis.slice.1"], 2.0),
    times_min_target("P5", "slice.protobuf.64", &["postgres.slice.64", "redis.slice.64"], 2.0),
    value_max_target("P6", "research.overview.few", 100.0),
    value_max_target("P6", "research.overview.many", 100.0),
    value_max_target("P6", "research.overview.most", 100.0),
    value_max_target("P6", "research.overview.flat", 1.2),
    value_max_target("P6", "research.overview.bytes", 10_000.0),
    value_max_target("P7", "research.step.ratio", 1.1),
    value_max_target("P7", "research.written", 2.5),
    value_max_target("P8", "start.clean", 1.0),
    value_max_target("P8", "start.crash", 3.0),
    value_max_target("P8", "start.memory", 200.0),
    value_max_target("P9", "fork.own", 1_000.0),
    value_max_target("P9", "fork.deep.100", 1_000.0),
    value_max_target("P9", "fork.deep.1000", 1_000.0),
    value_max_target("P9", "fork.middle", 1_000.0),
    value_max_target("P9", "fork.copied", 0.0),
    value_max_target("P10", "hook.record", 10.0),
    value_max_target("P10", "hook.record.p99", 30.0),
    shown_target("P10", "hook.record", &["hook.floor"]),
    value_max_target("P11", "disk.ratio", 0.35),
    shown_target("P11", "disk.imported", &[]),
    value_max_target("P12", "search.p99", 50.0),
    value_max_target("P12", "search.bytes", 0.2),
    value_max_target("P12", "search.memory", 96.0),
    value_max_target("P12", "search.found", 300.0),
    value_max_target("P13", "fair.read.ratio", 5.0),
    value_max_target("P13", "fair.search.ratio", 5.0),
    shown_target("P13", "fair.view.ratio", &[]),
    shown_target("P13", "fair.nothing.ratio", &[]),
    cost("D1c", "nodes.append.64", &["postgres.append.64"], 0.334),
    cost("D1c", "nodes.append.64.ids", &["postgres.append.64"], 0.334),
    times_min_target("D1", "nodes.append.64", &["postgres.append.64"], 3.0),
    shown_target("D1", "nodes.append.64.ids", &["postgres.append.64"]),
    shown_target("D1", "nodes.http.64", &["postgres.append.64"]),
    times_min_target("D2", "nodes.replicated.64", &["postgres.replicated.64"], 2.5),
    times_min_target("D3", "nodes.append.64.sessions", &["postgres.append.64"], 2.5),
    times_min_target("D4", "nodes.append.1", &["postgres.append.1"], 0.667),
    shown_target("D4", "nodes.http.1", &["postgres.append.1"]),
    times_min_target("D5", "nodes.slice.1", &["postgres.slice.1"], 0.667),
    shown_target("D5", "nodes.slice.1", &["slice.json.1"]),
    value_max_target("D6", "nodes.stream.p50", 10.0),
    value_max_target("D6", "nodes.stream.p99", 50.0),
    value_max_target("D7", "nodes.shared.p99", 50.0),
    value_max_target("D8", "nodes.statements", 1.12),
    shown_target("D9", "nodes.memory", &[]),
];

const fn times_min_target(
    id: &'static str,
    row: &'static str,
    against: &'static [&'static str],
    least: f64,
) -> Target {
    Target { id, row, against, bound: Bound::TimesMin(least) }
}

const fn value_max_target(id: &'static str, row: &'static str, most: f64) -> Target {
    Target { id, row, against: &[], bound: Bound::ValueMax(most) }
}

const fn cost(
    id: &'static str,
    row: &'static str,
    against: &'static [&'static str],
    most: f64,
) -> Target {
    Target { id, row, against, bound: Bound::CostTimesMax(most) }
}

const fn shown_target(
    id: &'static str,
    row: &'static str,
    against: &'static [&'static str],
) -> Target {
    Target { id, row, against, bound: Bound::Shown }
}

/// A target and its measurement.
pub(super) struct Verdict<'a> {
    pub(super) target: &'static Target,
    /// Row compared with: the best of those measured.
    pub(super) against: Option<&'static str>,
    /// Ratio, or the value itself.
    pub(super) value: f64,
    /// True if it is met; `None` if it is not judged.
    pub(super) met: Option<bool>,
    /// Reason why it is not judged, if it has a bound.
    pub(super) unjudged: Option<&'a str>,
}

/// Returns the verdict on every target whose rows were measured.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict<'_>> {
    TARGETS.iter().filter_map(|target| evaluate_target(target, rows)).collect()
}

fn evaluate_target<'a>(target: &'static Target, rows: &'a [Row]) -> Option<Verdict<'a>> {
    let of = |id: &str| rows.iter().find(|row| row.id == id);
    let row = of(target.row)?;
    let is_cost = matches!(target.bound, Bound::CostTimesMax(_));
    let figure = |row: &Row| if is_cost { row.cost() } else { Some(row.median()) };
    let others = target.against.iter().filter_map(|id| Some((*id, figure(of(id)?)?)));
    let order = |a: &f64, b: &f64| if is_cost { b.total_cmp(a) } else { a.total_cmp(b) };
    let best = others.max_by(|a, b| order(&a.1, &b.1));
    let value = match target.bound {
        Bound::ValueMax(_) => row.median(),
        Bound::Shown if target.against.is_empty() => row.median(),
        Bound::TimesMin(_) | Bound::CostTimesMax(_) | Bound::Shown => figure(row)? / best?.1,
    };
    let met = match target.bound {
        Bound::ValueMax(most) | Bound::CostTimesMax(most) => Some(value <= most),
        Bound::TimesMin(least) => Some(value >= least),
        Bound::Shown => None,
    };
    let unjudged = row.unjudged.as_deref().filter(|_| met.is_some());
    let met = met.filter(|_| unjudged.is_none());
    Some(Verdict { target, against: best.map(|best| best.0), value, met, unjudged })
}

#[cfg(test)]
mod tests {
    use super::super::runner::{Left, Timing};
    use super::*;

    fn row(id: &'static str, value: f64) -> Row {
        Row { id, values: vec![value], ..Row::default() }
    }

    #[test]
    fn a_target_is_compared_with_the_best_of_the_measured_rows() {
        let rows = [
            row("engine.append.64", 90.0),
            row("engine.lasting.64", 60.0),
            row("floor.append.64", 100.0),
            row("floor.append.64.tasks", 120.0),
            row("disk.ratio", 0.4),
            row("http.append.json.1", 5.0),
        ];
        let found: Vec<_> = verdicts(&rows)
            .iter()
            .map(|one| (one.target.id, one.target.row, one.against, one.value, one.met))
            .collect();
        let tasks = Some("floor.append.64.tasks");
        assert_eq!(
            found,
            [
                ("P1", "engine.append.64", tasks, 0.75, Some(false)),
                ("P1", "engine.lasting.64", tasks, 0.5, None),
                ("P11", "disk.ratio", None, 0.4, Some(false)),
            ]
        );
    }

    #[test]
    fn a_cost_includes_deferred_work_and_is_compared_with_the_least() {
        let row = |id: &'static str, micros: f64, behind: Option<f64>| Row {
            timing: Some(Timing { server_micros: Some(micros), ..Timing::default() }),
            left: behind.map(|micros_per_event| Left { micros_per_event, ..Left::default() }),
            ..row(id, 1.0)
        };
        let rows = [
            row("http.append.json.1", 90.0, Some(10.0)),
            row("postgres.append.1", 80.0, None),
            row("redis.append.1", 100.0, None),
        ];
        let found = verdicts(&rows);
        let found = found.iter().find(|one| one.target.id == "P2c").expect("a verdict");
        let expected = (Some("postgres.append.1"), 1.25, Some(false));
        assert_eq!((found.against, found.value, found.met), expected);
    }

    #[test]
    fn a_row_that_must_not_be_judged_is_still_shown() {
        let rows = [Row { unjudged: Some("tiny".to_owned()), ..row("disk.ratio", 0.1) }];
        let found = verdicts(&rows);
        let found: Vec<_> = found.iter().map(|one| (one.value, one.met, one.unjudged)).collect();
        assert_eq!(found, [(0.1, None, Some("tiny"))]);
    }
}
