//! The program `model-gateway`.

use std::process::ExitCode;

/// The system allocator of glibc keeps what a burst of streams used and costs a tenth of a request's time; this one
/// gives memory back, and is the same on every platform.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gw::cli::main()
}
