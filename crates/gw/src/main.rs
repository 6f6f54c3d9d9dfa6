//! The program `model-gateway`.

use std::process::ExitCode;

/// The allocator of glibc costs a tenth of a request's time and keeps what a burst of streams used; this one gives it
/// back (its settings are in `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    gw::cli::main()
}
