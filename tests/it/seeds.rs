//! The stories of the reference systems, told through a door from beginning to end.

mod survives_context_loss;
