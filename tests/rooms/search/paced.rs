//! Computations over parts give way: none of them runs for long between two steps, so that it ends
//! soon when a file that it reads is to go.

use std::{cell::Cell, rc::Rc};

use sessionlog::{
    event::{
        Position, Range, SessionHash,
        pace::{Ended, paced},
    },
    search::{
        EntityKind, HitOrder, Meaning, MeaningBuilder, Part, SessionRef, by_day, merge,
        merge_meaning, named, naming, nearest, rank,
    },
};

use super::index::{all, built, numbered, query};

const PASSAGES: usize = 20_000;

/// Counts the checks of a computation for its end, and tests that it ends there.
fn looks(of: &str, compute: impl Fn()) {
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    let look = move || {
        counted.set(counted.get() + 1);
        Ok(())
    };
    assert_eq!(paced(look, &compute), Ok(()));
    assert!(count.get() > 0, "{of} never looks");
    assert_eq!(paced(|| Err(Ended), compute), Err(Ended), "{of} does not end");
}

#[test]
fn every_computation_over_parts_of_an_index_gives_way_and_ends() {
    let texts: Vec<String> = (0..PASSAGES)
        .map(|n| format!("ledger {n} of src/file{n}.rs near harbour{}", n % 7))
        .collect();
    let texts: Vec<(u8, &str)> =
        texts.iter().enumerate().map(|(n, text)| ((n % 4) as u8, text.as_str())).collect();
    let bytes = built(&numbered(&texts));
    let part = Part::read(&bytes).unwrap();
    let parts = [part];
    let query = query("ledger harbour* -nothing");
    looks("rank", || drop(rank(&parts, &query, &all, HitOrder::Score, 10)));
    looks("merge", || drop(merge(&parts, &all)));
    let same = |_: EntityKind, name: String| name;
    let kinds = [EntityKind::File];
    looks("named", || drop(named(&parts, &kinds, &all, None, &same)));
    looks("by_day", || drop(by_day(&parts, &all, None)));
    let wanted: Vec<_> =
        (0..PASSAGES).map(|n| (EntityKind::File, vec![format!("src/file{n}.rs")])).collect();
    looks("naming", || drop(naming(&parts, &wanted, &all, 20)));
    let mut made = MeaningBuilder::new("model", 8);
    let session = SessionRef { hash: SessionHash([1; 32]), id: "s1" };
    made.cover(session, Range::new(Position(0), Position(PASSAGES as u64)));
    for n in 0..PASSAGES as u64 {
        made.add(session, Position(n), 0, &[n as f32 + 1.0; 8]);
    }
    let bytes = made.finish();
    let parts = [Meaning::read(&bytes).unwrap()];
    looks("nearest", || drop(nearest(&parts, &[1.0; 8], &all)));
    looks("merge_meaning", || drop(merge_meaning(&parts, &all)));
}
