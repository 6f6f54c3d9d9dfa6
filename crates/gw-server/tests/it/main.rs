//! The state over real sockets: an engine with keys and without providers behind it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod checks;
mod harness;
mod life;
mod overload;
mod shutdown;
mod tls;
