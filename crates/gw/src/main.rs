//! The program `model-gateway`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gw::cli::main()
}
