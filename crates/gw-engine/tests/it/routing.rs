//! Which upstreams are asked, and when.

mod attempts;
mod continuation;
mod divided;
mod hedges;
mod own_memory;
mod silence;
