//! The HTTP server over real sockets, with an engine that has keys and no providers.
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
