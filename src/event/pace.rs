//! Cooperative scheduling of a long computation. Its loops call [`steps`], which yields to others
//! and ends a cancelled computation by unwinding to [`paced`]. It must not know the caller, nor
//! read a clock.
//!
//! Folds, views and ranking are plain functions, and most of their callers want complete results.
//! So a loop does not return early through each of them (docs/decisions/0068).

use std::{
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
    rc::Rc,
};

/// Steps between two checks whether to yield.
const LOOK_EVERY: u32 = 256;

/// The computation was cancelled before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// Yields to other computations, or cancels this one.
type Look = Rc<dyn Fn() -> Result<(), Ended>>;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(LOOK_EVERY) };
    static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
}

/// Counts a step of about a microsecond. Every loop whose length depends on a caller or a session
/// calls it, or [`steps`], and holds no lock then. Outside of [`paced`] it does nothing.
pub fn step() {
    steps(1);
}

/// Counts several steps at once: for a parsed tree or a compared text.
pub fn steps(count: usize) {
    let left = LEFT.get();
    match u32::try_from(count).ok().and_then(|count| left.checked_sub(count)) {
        Some(left) if left > 0 => LEFT.set(left),
        _ => {
            LEFT.set(LOOK_EVERY);
            look();
        }
    }
}

#[cold]
fn look() {
    let look = LOOK.with_borrow(Clone::clone);
    if let Some(Err(ended)) = look.map(|look| look()) {
        // Not a panic: no message is printed, and no test fails for it.
        panic::resume_unwind(Box::new(ended));
    }
}

/// Runs a computation that calls `look` every few hundred steps.
///
/// # Errors
/// [`Ended`] as soon as `look` returns it. A panic of the computation is passed on.
pub fn paced<T>(
    look: impl Fn() -> Result<(), Ended> + 'static,
    compute: impl FnOnce() -> T,
) -> Result<T, Ended> {
    let outer = LOOK.replace(Some(Rc::new(look)));
    let done = panic::catch_unwind(AssertUnwindSafe(compute));
    LOOK.set(outer);
    done.map_err(|reason| match reason.downcast::<Ended>() {
        Ok(ended) => *ended,
        Err(reason) => panic::resume_unwind(reason),
    })
}

/// Runs a part of a computation and returns `None` once `is_void` is true, which each check calls
/// as well.
pub fn unless<T>(
    is_void: impl Fn() -> bool + Clone + 'static,
    compute: impl FnOnce() -> T,
) -> Option<T> {
    let outer = LOOK.with_borrow(Clone::clone);
    let asked = is_void.clone();
    let look = move || {
        // Yielding may take long.
        let looked =
            if asked() { Err(Ended) } else { outer.as_ref().map_or(Ok(()), |look| look()) };
        looked.and_then(|()| if asked() { Err(Ended) } else { Ok(()) })
    };
    let done = paced(look, compute);
    if is_void() {
        return None;
    }
    match done {
        Ok(done) => Some(done),
        Err(ended) => panic::resume_unwind(Box::new(ended)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_computation_stops_at_its_next_step() {
        let looks = Rc::new(Cell::new(0));
        let look = {
            let looks = Rc::clone(&looks);
            move || {
                looks.set(looks.get() + 1);
                if looks.get() < 3 { Ok(()) } else { Err(Ended) }
            }
        };
        let mut done = 0_u32;
        let ended = paced(look, || {
            for _ in 0..100 * LOOK_EVERY {
                step();
                done += 1;
            }
        });
        assert_eq!((ended, looks.get()), (Err(Ended), 3));
        assert!(done < 3 * LOOK_EVERY, "{done}");
        // Outside of `paced` a step does nothing.
        steps(usize::MAX);
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn a_void_part_stops_alone_and_a_cancelled_one_stops_the_computation() {
        let (is_void, is_over) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let asked = Rc::clone(&is_over);
        let look = move || if asked.get() { Err(Ended) } else { Ok(()) };
        let part = |ends: &Cell<bool>| {
            let void = Rc::clone(&is_void);
            unless(
                move || void.get(),
                || {
                    ends.set(true);
                    steps(usize::MAX);
                },
            )
        };
        let mut void = Some(());
        let ended = paced(look, || {
            void = part(&is_void);
            is_void.set(false);
            part(&is_over);
        });
        assert_eq!((void, ended), (None, Err(Ended)));
        assert_eq!(unless(|| false, || 7), Some(7));
    }

    #[test]
    fn a_panic_of_a_computation_is_passed_on() {
        let computed =
            panic::catch_unwind(|| paced(|| Ok(()), || panic::resume_unwind(Box::new(7))));
        assert_eq!(computed.unwrap_err().downcast_ref::<i32>(), Some(&7));
    }
}
