//! Asks the user to confirm a change that cannot be undone easily. It must not know the change.

use super::{
    failure::{Failure, Outcome},
    screen::Screen,
};

/// Rejects a verb early where no user can confirm and `--yes` is missing.
pub(super) fn required(verb: &str, yes: bool, screen: &Screen) -> Outcome {
    if yes || screen.is_interactive() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`sessionlog {verb}` asks for confirmation, and there is no terminal to ask on; \
         add --yes to confirm"
    )))
}

/// Asks the user to confirm after printing `warning`; `--yes` confirms in advance.
pub(super) fn ask(
    yes: bool,
    warning: &str,
    question: &str,
    unchanged: &str,
    screen: &mut Screen,
) -> Outcome {
    if yes {
        return Ok(());
    }
    screen.flush()?;
    screen.error(warning);
    if screen.confirm(question)? {
        return Ok(());
    }
    Err(Failure::refused("forbidden", unchanged, "answer y, or add --yes"))
}
