//! Cooperative scheduling of a long computation. Its loops call [`steps`], which yields to others
//! and ends a cancelled computation by unwinding to [`run_paced`]. It must not know the caller, nor
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
const CHECK_STEPS: u32 = 256;

/// The computation was cancelled before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Yields to other computations, or cancels this one.
type Check = Rc<dyn Fn() -> Result<(), Cancelled>>;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(CHECK_STEPS) };
    static CHECK: RefCell<Option<Check>> = const { RefCell::new(None) };
}

/// Counts a step of about a microsecond. Every loop whose length depends on a caller or a session
/// calls it, or [`steps`], and holds no lock then. Outside of [`run_paced`] it does nothing.
pub fn step() {
    steps(1);
}

/// Counts `count` steps at once, for example for a parsed tree or a compared text.
pub fn steps(count: usize) {
    let left = LEFT.get();
    match u32::try_from(count).ok().and_then(|count| left.checked_sub(count)) {
        Some(left) if left > 0 => LEFT.set(left),
        _ => {
            LEFT.set(CHECK_STEPS);
            check();
        }
    }
}

#[cold]
fn check() {
    let check = CHECK.with_borrow(Clone::clone);
    if let Some(Err(ended)) = check.map(|check| check()) {
        // Not a panic: no message is printed, and no test fails for it.
        panic::resume_unwind(Box::new(ended));
    }
}

/// Runs a computation that calls `check` every few hundred steps.
///
/// # Errors
/// [`Cancelled`] as soon as `check` returns it. A panic of the computation is passed on.
pub fn run_paced<T>(
    check: impl Fn() -> Result<(), Cancelled> + 'static,
    compute: impl FnOnce() -> T,
) -> Result<T, Cancelled> {
    let outer = CHECK.replace(Some(Rc::new(check)));
    let done = panic::catch_unwind(AssertUnwindSafe(compute));
    CHECK.set(outer);
    done.map_err(|reason| match reason.downcast::<Cancelled>() {
        Ok(ended) => *ended,
        Err(reason) => panic::resume_unwind(reason),
    })
}

/// Runs a part of a computation; returns `None` once `is_void` returns true. Each check calls it,
/// too.
pub fn run_unless<T>(
    is_void: impl Fn() -> bool + Clone + 'static,
    compute: impl FnOnce() -> T,
) -> Option<T> {
    let outer = CHECK.with_borrow(Clone::clone);
    let cancelled = is_void.clone();
    let check = move || {
        // Yielding may take long.
        let result = if cancelled() {
            Err(Cancelled)
        } else {
            outer.as_ref().map_or(Ok(()), |check| check())
        };
        result.and_then(|()| if cancelled() { Err(Cancelled) } else { Ok(()) })
    };
    let done = run_paced(check, compute);
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
        let checks = Rc::new(Cell::new(0));
        let check = {
            let checks = Rc::clone(&checks);
            move || {
                checks.set(checks.get() + 1);
                if checks.get() < 3 { Ok(()) } else { Err(Cancelled) }
            }
        };
        let mut done = 0_u32;
        let ended = run_paced(check, || {
            for _ in 0..100 * CHECK_STEPS {
                step();
                done += 1;
            }
        });
        assert_eq!((ended, checks.get()), (Err(Cancelled), 3));
        assert!(done < 3 * CHECK_STEPS, "{done}");
        // Outside of `paced` a step does nothing.
        steps(usize::MAX);
        assert_eq!(checks.get(), 3);
    }

    #[test]
    fn a_void_part_stops_alone_and_a_cancelled_one_stops_the_computation() {
        let (is_void, is_over) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let cancelled = Rc::clone(&is_over);
        let check = move || if cancelled.get() { Err(Cancelled) } else { Ok(()) };
        let part = |ends: &Cell<bool>| {
            let void = Rc::clone(&is_void);
            run_unless(
                move || void.get(),
                || {
                    ends.set(true);
                    steps(usize::MAX);
                },
            )
        };
        let mut void = Some(());
        let ended = run_paced(check, || {
            void = part(&is_void);
            is_void.set(false);
            part(&is_over);
        });
        assert_eq!((void, ended), (None, Err(Cancelled)));
        assert_eq!(run_unless(|| false, || 7), Some(7));
    }

    #[test]
    fn a_panic_of_a_computation_is_passed_on() {
        let computed =
            panic::catch_unwind(|| run_paced(|| Ok(()), || panic::resume_unwind(Box::new(7))));
        assert_eq!(computed.unwrap_err().downcast_ref::<i32>(), Some(&7));
    }
}
