//! Asks the user to confirm a change that cannot be undone easily. It must not know the change.

use super::{
    failure::{CliError, Outcome},
    screen::Screen,
};

/// Rejects a verb early where no user can confirm and `--yes` is missing.
pub(super) fn check_can_confirm(verb: &str, yes: bool, screen: &Screen) -> Outcome {
    if yes || screen.is_interactive() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "`sessionlog {verb}` asks for confirmation, and there is no terminal to ask on; \
         add --yes to confirm"
    )))
}

/// Asks the user to confirm after printing `warning`; `--yes` confirms in advance.
pub(super) fn confirm(
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
    screen.print_error(warning);
    if screen.confirm(question)? {
        return Ok(());
    }
    Err(CliError::refusal("forbidden", unchanged, "answer y, or add --yes"))
}
