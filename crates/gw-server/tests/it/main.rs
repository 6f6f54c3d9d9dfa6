//! The edge over real sockets: an engine with keys and without providers behind it.

mod checks;
mod harness;
mod life;
mod shutdown;
