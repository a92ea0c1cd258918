//! Sweeps in which the n-th disk call of a story fails: the cases, and how many of them are tried.
//! It must not know the stories.

use sessionlog_sim::{Fault, Sim};

use crate::life::seeds;

/// Every fault that can strike a call.
pub const FAULTS: [Fault; 5] =
    [Fault::Io, Fault::Full, Fault::Short, Fault::Kill, Fault::PowerLoss];

/// A fault that strikes one call of a story, or that call and every later one.
#[derive(Clone, Copy, Debug)]
pub struct Nth {
    /// Number of the call, counted from the start of the story.
    pub call: u64,
    pub fault: Fault,
    pub lasting: bool,
}

impl Nth {
    /// Plans the fault for a story that starts with the machine's next call.
    pub fn plan(self, sim: &Sim) {
        sim.fail_call(sim.calls() + self.call, self.fault, self.lasting);
    }

    /// True if the fault strikes any kind of call.
    pub fn is_certain(self) -> bool {
        matches!(self.fault, Fault::Io | Fault::Kill | Fault::PowerLoss)
    }
}

/// Returns the faults at a call: each once, and persistently where the process outlives it.
fn kinds(call: u64) -> impl Iterator<Item = Nth> {
    let once = FAULTS.into_iter().map(|fault| (fault, false));
    let lasting = [Fault::Io, Fault::Full, Fault::Short].into_iter().map(|fault| (fault, true));
    once.chain(lasting).map(move |(fault, lasting)| Nth { call, fault, lasting })
}

/// Returns one case in `usual`, or every case when seeds are requested. `usual` must be odd, or
/// some kinds of fault would never be chosen.
pub fn cases(calls: u64, usual: usize) -> impl Iterator<Item = Nth> {
    assert!(!usual.is_multiple_of(2), "{usual} shares a factor with the 8 kinds");
    let stride = if seeds(0).is_empty() { usual } else { 1 };
    (0..calls).flat_map(kinds).step_by(stride)
}

#[test]
fn each_fault_is_injected_once_and_each_survivable_one_also_persistently() {
    let told: Vec<String> = kinds(7).map(|case| format!("{case:?}")).collect();
    for fault in FAULTS {
        let once = format!("Nth {{ call: 7, fault: {fault:?}, lasting: false }}");
        assert!(told.contains(&once), "{told:?}");
        let lasting = format!("Nth {{ call: 7, fault: {fault:?}, lasting: true }}");
        let ends = matches!(fault, Fault::Kill | Fault::PowerLoss);
        assert_eq!(told.contains(&lasting), !ends, "{told:?}");
    }
}
