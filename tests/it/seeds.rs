//! The stories of the reference systems, through an interface from beginning to end.

mod continues_seamlessly;
mod is_the_context_object;
mod survives_context_loss;
