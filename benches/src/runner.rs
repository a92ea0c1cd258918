//! Runs cells in interleaved rounds, whose order rotates, so that other activity of the machine
//! affects all of them; then compares acknowledged with stored events. It must not know what a cell
//! does.

use std::time::Duration;

use super::{
    cell::{Cell, Effect, Kept, Limits, Load, Round},
    failure::{Failure, Outcome},
    machine::Processor,
    site::{Site, stop_here},
};

/// Share of the flushes needed for durability that a row must reach, since rounds end in the middle
/// of a group.
const FLUSHES_SLACK: f64 = 0.9;
const MICROS: f64 = 1e6;

/// A row of the table, measured.
#[derive(Default)]
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) group: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    /// Number of writers, readers or connections; none for a single figure.
    pub(super) clients: Option<usize>,
    /// One value a round, in the order of the rounds.
    pub(super) values: Vec<f64>,
    pub(super) timing: Option<Timing>,
    /// Work of the device for each event, where it is known and something is written.
    pub(super) device: Option<Device>,
    /// Work that the store deferred until after the rounds.
    pub(super) left: Option<Left>,
    pub(super) kept: Option<Kept>,
    /// Reason why no target may be judged by it; `None` when one may.
    pub(super) unjudged: Option<String>,
}

impl Row {
    pub(super) fn median(&self) -> f64 {
        median(&self.values)
    }

    /// Returns the processor microseconds of the server for each event, deferred work included.
    pub(super) fn cost(&self) -> Option<f64> {
        let put_off = self.left.map_or(0.0, |left| left.micros_per_event);
        Some(self.timing?.server_micros? + put_off)
    }
}

/// Latency and cost of operations; medians of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    pub(super) p50_micros: f64,
    pub(super) p99_micros: f64,
    /// Average number of processors used by the client.
    pub(super) client_processors: f64,
    /// Average number of processors used by the whole machine.
    pub(super) machine_processors: f64,
    /// Processor microseconds of the server for each event; `None` without a server.
    pub(super) server_micros: Option<f64>,
}

/// Work of the device for each event; medians of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Device {
    pub(super) flushes_per_event: f64,
    pub(super) bytes_per_event: f64,
    /// True if there were enough flushes to acknowledge the operations; `None` when the device does
    /// not count them. Other programs' flushes count too, so `true` is not a proof.
    pub(super) durable: Option<bool>,
}

/// Deferred cost of each event of a round; medians of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// Processor time.
    pub(super) micros_per_event: f64,
    /// Bytes written to the device.
    pub(super) bytes_per_event: f64,
}

/// Figures of one round.
#[derive(Default)]
struct Figures {
    rate: f64,
    timing: Timing,
    device: Device,
    left: Option<Left>,
}

struct Prepared<'a> {
    cell: &'a Cell,
    load: Box<dyn Load>,
    rounds: Vec<Figures>,
}

/// Sets all cells up, runs their rounds and returns a row for each cell that was set up.
pub(super) fn run(
    site: &mut Site,
    cells: &[&Cell],
    progress: &mut dyn FnMut(&str),
) -> Outcome<Vec<Row>> {
    let mut prepared = Vec::new();
    for cell in cells {
        stop_here(site)?;
        progress("setting up");
        if let Some(load) = (cell.prepare)(site, cell).map_err(|why| failure_of_cell(cell, &why))? {
            prepared.push(Prepared { cell, load, rounds: Vec::new() });
        }
    }
    let duration = Duration::from_secs_f64(site.settings.seconds);
    let limits = Limits { duration, stop: site.stop.clone() };
    for one in &mut prepared {
        stop_here(site)?;
        one.load.warm(&limits).map_err(|why| failure_of_cell(one.cell, &why))?;
        one.load.finish().map_err(|why| failure_of_cell(one.cell, &why))?;
    }
    for round in 0..site.settings.rounds as usize {
        let turn = round % prepared.len().max(1);
        let (first, last) = prepared.split_at_mut_checked(turn).unwrap_or_default();
        for one in last.iter_mut().chain(first) {
            progress(one.cell.id);
            let figures = measure_round(site, one.cell, &mut *one.load, &limits);
            // An error of a server that a signal interrupted is not a failure of the server.
            stop_here(site)?;
            one.rounds.push(figures.map_err(|why| failure_of_cell(one.cell, &why))?);
        }
    }
    prepared.into_iter().map(|one| row(site, one)).collect()
}

fn failure_of_cell(cell: &Cell, why: &Failure) -> Failure {
    Failure::Ended(
        format!("{}: {why}", cell.id),
        "leave the row out by naming others, or report this",
    )
}

fn measure_round(
    site: &Site,
    cell: &Cell,
    load: &mut dyn Load,
    limits: &Limits,
) -> Outcome<Figures> {
    let (counters, processor) = (site.disk.counters(), Processor::now());
    let round = load.round(limits)?;
    let used = Processor::now().since(processor);
    let between = site.disk.counters();
    let behind = load.finish()?;
    let after = site.disk.counters();
    let moved = between.zip(counters).map(|(now, before)| now.since(before)).unwrap_or_default();
    let later = after.zip(between).map(|(now, before)| now.since(before)).unwrap_or_default();
    let elapsed = round.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let events = float(round.events).max(1.0);
    let device = Device {
        flushes_per_event: float(moved.flushes) / events,
        bytes_per_event: float(moved.bytes) / events,
        durable: site.counts_flushes.then(|| has_enough_flushes(cell, &round, moved.flushes)),
    };
    let left = |processor: f64| Left {
        micros_per_event: processor * MICROS / events,
        bytes_per_event: float(later.bytes) / events,
    };
    Ok(Figures {
        rate: if cell.effect == Effect::Reads { float(round.operations) } else { events } / elapsed,
        timing: Timing {
            p50_micros: percentile(&round, 0.50),
            p99_micros: percentile(&round, 0.99),
            client_processors: used.own / elapsed,
            machine_processors: used.all / elapsed,
            server_micros: round.server.map(|used| used * MICROS / events),
        },
        device,
        left: behind.map(left),
    })
}

/// Returns true if the flushes suffice to make every operation durable before its acknowledgement:
/// one flush serves at most `in_flight` operations.
fn has_enough_flushes(cell: &Cell, round: &Round, flushes: u64) -> bool {
    match cell.effect {
        Effect::Durable { in_flight } => {
            float(flushes) * float(in_flight) >= FLUSHES_SLACK * float(round.operations)
        }
        Effect::Reads => true,
    }
}

/// Creates the row of a cell.
fn row(site: &Site, prepared: Prepared<'_>) -> Outcome<Row> {
    let Prepared { cell, mut load, rounds } = prepared;
    let middle = |of: fn(&Figures) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    let timing = Timing {
        p50_micros: middle(|round| round.timing.p50_micros),
        p99_micros: middle(|round| round.timing.p99_micros),
        client_processors: middle(|round| round.timing.client_processors),
        machine_processors: middle(|round| round.timing.machine_processors),
        server_micros: median_of(&rounds, |round| round.timing.server_micros),
    };
    let writes = cell.effect != Effect::Reads && site.disk.device.is_some();
    let micros = median_of(&rounds, |round| Some(round.left?.micros_per_event));
    let left = micros.zip(median_of(&rounds, |round| Some(round.left?.bytes_per_event)));
    let left =
        left.map(|(micros_per_event, bytes_per_event)| Left { micros_per_event, bytes_per_event });
    let kept = load.kept().map_err(|why| failure_of_cell(cell, &why))?;
    if let Some(Kept { acknowledged, found }) = kept.filter(|kept| kept.acknowledged != kept.found)
    {
        let what = format!("{}: {acknowledged} events acknowledged, {found} found", cell.id);
        return Err(Failure::Damaged(what));
    }
    let devices = rounds.iter().map(|round| round.device).collect();
    Ok(Row {
        id: cell.id,
        group: cell.group.name(),
        what: cell.what,
        unit: if cell.effect == Effect::Reads { "answers/s" } else { "events/s" },
        clients: Some(cell.clients),
        values: rounds.iter().map(|round| round.rate).collect(),
        timing: Some(timing),
        device: writes.then(|| device(devices)),
        left,
        kept,
        unjudged: load.unjudged(),
    })
}

/// Returns the median of a figure over the rounds that have it.
fn median_of(rounds: &[Figures], of: fn(&Figures) -> Option<f64>) -> Option<f64> {
    let all: Vec<f64> = rounds.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| median(&all))
}

/// Returns the medians of the device's work in the rounds.
fn device(rounds: Vec<Device>) -> Device {
    let middle = |of: fn(&Device) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    Device {
        flushes_per_event: middle(|round| round.flushes_per_event),
        bytes_per_event: middle(|round| round.bytes_per_event),
        // A single round without enough flushes makes the row not durable.
        durable: rounds.iter().map(|round| round.durable).min().flatten(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the median; for an even number of values the mean of the middle two.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        at(middle)
    } else {
        f64::midpoint(at(middle.saturating_sub(1)), at(middle))
    }
}

/// Returns the microseconds that `share` of a round's operations stayed below.
fn percentile(round: &Round, share: f64) -> f64 {
    let mut sorted = round.latencies.clone();
    sorted.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a length"
    )]
    let at = (float(sorted.len() as u64) * share) as usize;
    let nanos = sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default();
    Duration::from_nanos(nanos.into()).as_secs_f64() * MICROS
}

#[cfg(test)]
mod tests {
    use super::super::cell::Group;
    use super::*;

    #[test]
    fn a_median_is_the_middle_value_or_the_mean_of_two() {
        for (values, expected) in [
            ([].as_slice(), 0.0),
            (&[3.0], 3.0),
            (&[1.0, 2.0], 1.5),
            (&[9.0, 1.0, 5.0], 5.0),
            (&[4.0, 1.0, 2.0, 3.0], 2.5),
        ] {
            assert_eq!(median(values).to_bits(), f64::to_bits(expected), "{values:?}");
        }
    }

    #[test]
    fn a_percentile_is_one_of_the_measured_latencies() {
        let latencies = (1..=100).rev().map(|micros| micros * 1_000).collect();
        let round = Round { latencies, ..Round::default() };
        let near = |share, expected: f64| (percentile(&round, share) - expected).abs() < 1e-6;
        assert!(near(0.5, 51.0) && near(0.99, 100.0) && near(1.0, 100.0));
        assert!(percentile(&Round::default(), 0.5) < 1e-9);
    }

    #[test]
    fn too_few_flushes_for_the_operations_in_flight_are_detected() {
        for (in_flight, operations, flushes, expected) in [
            (1, 1_000, 1_000, true),
            (1, 1_000, 950, true),
            (1, 1_000, 0, false),
            (1, 1_000, 500, false),
            (64, 6_400, 100, true),
            (64, 6_400, 80, false),
        ] {
            let prepare = |_: &mut Site, _: &Cell| Ok(None);
            let cell = Cell::durable(Group::Floor, "", "", 1, in_flight, prepare);
            let round = Round { operations, ..Round::default() };
            assert_eq!(
                has_enough_flushes(&cell, &round, flushes),
                expected,
                "{in_flight} {operations}"
            );
        }
    }
}
