//! What docs/performance.md promises, as data: which row, compared with which, by how much. It must
//! not measure.

use super::{
    cell::{Bound, Target},
    runner::Row,
};

const POSTGRES_AND_REDIS: &[&str] = &["postgres.append.1", "redis.append.1"];

pub(super) const TARGETS: &[Target] = &[
    times("P1", "engine.append.1", &["floor.append.1"], 0.9),
    times("P1", "engine.append.64", &["floor.append.64", "floor.append.64.tasks"], 0.8),
    times("P2", "http.append.json.1", POSTGRES_AND_REDIS, 1.2),
    times("P2", "http.append.protobuf.1", POSTGRES_AND_REDIS, 1.2),
    times("P2", "http.append.json.64", &["redis.append.64"], 1.05),
    times("P2", "http.append.protobuf.64", &["redis.append.64"], 1.05),
    times("P2b", "http.stream.64", &["redis.append.64"], 2.5),
    times("P3", "engine.append.64.sessions", &["engine.append.64"], 0.85),
    times("P5", "slice.json.1", &["postgres.slice.1", "redis.slice.1"], 1.35),
    times("P5", "slice.json.64", &["postgres.slice.64", "redis.slice.64"], 1.35),
    times("P5", "slice.protobuf.1", &["postgres.slice.1", "redis.slice.1"], 2.0),
    times("P5", "slice.protobuf.64", &["postgres.slice.64", "redis.slice.64"], 2.0),
    at_most("P8", "start.clean", 1.0),
    at_most("P8", "start.crash", 3.0),
    at_most("P8", "start.memory", 200.0),
    at_most("P11", "disk.ratio", 0.35),
];

const fn times(
    id: &'static str,
    row: &'static str,
    against: &'static [&'static str],
    least: f64,
) -> Target {
    Target { id, row, against, bound: Bound::TimesMin(least) }
}

const fn at_most(id: &'static str, row: &'static str, most: f64) -> Target {
    Target { id, row, against: &[], bound: Bound::ValueMax(most) }
}

/// A target beside what was measured.
pub(super) struct Verdict {
    pub(super) target: &'static Target,
    /// The row it is compared with: the best of those there are.
    pub(super) against: Option<&'static str>,
    /// The ratio, or the value itself.
    pub(super) value: f64,
    pub(super) met: bool,
}

/// The verdict on every target whose rows were measured.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    TARGETS.iter().filter_map(|target| verdict(target, rows)).collect()
}

fn verdict(target: &'static Target, rows: &[Row]) -> Option<Verdict> {
    let of = |id: &str| rows.iter().find(|row| row.id == id).map(Row::median);
    let value = of(target.row)?;
    match target.bound {
        Bound::ValueMax(most) => Some(Verdict { target, against: None, value, met: value <= most }),
        Bound::TimesMin(least) => {
            let others = target.against.iter().filter_map(|id| Some((*id, of(id)?)));
            let (against, best) = others.max_by(|a, b| a.1.total_cmp(&b.1))?;
            let ratio = value / best;
            Some(Verdict { target, against: Some(against), value: ratio, met: ratio >= least })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &'static str, value: f64) -> Row {
        let values = vec![value];
        let (group, what, unit) = ("", "", "");
        Row { id, group, what, unit, clients: None, values, timing: None, device: None, kept: None }
    }

    #[test]
    fn a_target_compares_with_the_best_of_the_rows_there_are() {
        let rows = [
            row("engine.append.64", 90.0),
            row("floor.append.64", 100.0),
            row("floor.append.64.tasks", 120.0),
            row("disk.ratio", 0.4),
            row("http.append.json.1", 5.0),
        ];
        let found: Vec<_> = verdicts(&rows)
            .iter()
            .map(|one| (one.target.id, one.target.row, one.against, one.value, one.met))
            .collect();
        assert_eq!(
            found,
            [
                ("P1", "engine.append.64", Some("floor.append.64.tasks"), 0.75, false),
                ("P11", "disk.ratio", None, 0.4, false),
            ]
        );
    }
}
