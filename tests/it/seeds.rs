//! The stories of the reference systems, through an interface from beginning to end.

mod continues_seamlessly;
mod is_the_context_object;
mod persists_across_sessions;
mod survives_context_loss;
