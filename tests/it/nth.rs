//! Sweeps in which the n-th call of a story fails: which cases there are, and how many of them are
//! tried. It must not know the stories.

use sessionlog_sim::{Fault, Sim};

use crate::life::seeds;

/// Every fault of a call.
pub const FAULTS: [Fault; 5] =
    [Fault::Io, Fault::Full, Fault::Short, Fault::Kill, Fault::PowerLoss];

/// A fault that strikes one call of a story, or that call and every later one.
#[derive(Clone, Copy, Debug)]
pub struct Nth {
    /// Counted from where the story begins.
    pub call: u64,
    pub fault: Fault,
    pub lasting: bool,
}

impl Nth {
    /// Plans it for a story that begins with the machine's next call.
    pub fn plan(self, sim: &Sim) {
        sim.fail_call(sim.calls() + self.call, self.fault, self.lasting);
    }

    /// True if it strikes whatever the call does.
    pub fn is_certain(self) -> bool {
        matches!(self.fault, Fault::Io | Fault::Kill | Fault::PowerLoss)
    }
}

/// Faults at a call: each once, and persistently where the process outlives it.
fn kinds(call: u64) -> impl Iterator<Item = Nth> {
    let once = FAULTS.into_iter().map(|fault| (fault, false));
    let lasting = [Fault::Io, Fault::Full, Fault::Short].into_iter().map(|fault| (fault, true));
    once.chain(lasting).map(move |(fault, lasting)| Nth { call, fault, lasting })
}

/// One case in `usual` of all; every one when seeds are requested. The number must be odd, or some
/// kinds would never have their turn.
pub fn cases(calls: u64, usual: usize) -> impl Iterator<Item = Nth> {
    assert!(!usual.is_multiple_of(2), "{usual} shares a factor with the 8 kinds");
    let stride = if seeds(0).is_empty() { usual } else { 1 };
    (0..calls).flat_map(kinds).step_by(stride)
}

#[test]
fn each_fault_is_tried_once_and_the_survivable_ones_persistently_too() {
    let told: Vec<String> = kinds(7).map(|case| format!("{case:?}")).collect();
    for fault in FAULTS {
        let once = format!("Nth {{ call: 7, fault: {fault:?}, lasting: false }}");
        assert!(told.contains(&once), "{told:?}");
        let lasting = format!("Nth {{ call: 7, fault: {fault:?}, lasting: true }}");
        let ends = matches!(fault, Fault::Kill | Fault::PowerLoss);
        assert_eq!(told.contains(&lasting), !ends, "{told:?}");
    }
}
