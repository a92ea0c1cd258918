//! Computations over parts yield: none of them runs long between two steps, so that it stops soon
//! when a file that it reads is to be removed.

use std::{cell::Cell, rc::Rc};

use sessionlog::{
    event::{
        Position, Range, SessionHash,
        pace::{Cancelled, run_paced},
    },
    search::{
        EntityKind, HitOrder, Part, SessionRef, VectorPart, VectorPartBuilder, count_by_day,
        count_entities, find_naming_sessions, merge, merge_meaning, nearest, rank,
    },
};

use super::index::{all, built, numbered, query};

const PASSAGES: usize = 20_000;

/// Counts the cancellation checks of a computation, and tests that it stops at them.
fn check_cancellation(of: &str, compute: impl Fn()) {
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    let look = move || {
        counted.set(counted.get() + 1);
        Ok(())
    };
    assert_eq!(run_paced(look, &compute), Ok(()));
    assert!(count.get() > 0, "{of} never looks");
    assert_eq!(run_paced(|| Err(Cancelled), compute), Err(Cancelled), "{of} does not end");
}

#[test]
fn every_index_computation_yields_and_can_be_cancelled() {
    let texts: Vec<String> = (0..PASSAGES)
        .map(|n| format!("ledger {n} of src/file{n}.rs near harbour{}", n % 7))
        .collect();
    let texts: Vec<(u8, &str)> =
        texts.iter().enumerate().map(|(n, text)| ((n % 4) as u8, text.as_str())).collect();
    let bytes = built(&numbered(&texts));
    let part = Part::read(&bytes).unwrap();
    let parts = [part];
    let query = query("ledger harbour* -nothing");
    check_cancellation("rank", || drop(rank(&parts, &query, &all, HitOrder::Score, 10)));
    check_cancellation("merge", || drop(merge(&parts, &all)));
    let same = |_: EntityKind, name: String| name;
    let kinds = [EntityKind::File];
    check_cancellation("named", || drop(count_entities(&parts, &kinds, &all, None, &same)));
    check_cancellation("by_day", || drop(count_by_day(&parts, &all, None)));
    let wanted: Vec<_> =
        (0..PASSAGES).map(|n| (EntityKind::File, vec![format!("src/file{n}.rs")])).collect();
    check_cancellation("naming", || drop(find_naming_sessions(&parts, &wanted, &all, 20)));
    let mut made = VectorPartBuilder::new("model", 8);
    let session = SessionRef { hash: SessionHash([1; 32]), id: "s1" };
    made.mark_indexed(session, Range::new(Position(0), Position(PASSAGES as u64)));
    for n in 0..PASSAGES as u64 {
        made.add(session, Position(n), 0, &[n as f32 + 1.0; 8]);
    }
    let bytes = made.finish();
    let parts = [VectorPart::read(&bytes).unwrap()];
    check_cancellation("nearest", || drop(nearest(&parts, &[1.0; 8], &all)));
    check_cancellation("merge_meaning", || drop(merge_meaning(&parts, &all)));
}
