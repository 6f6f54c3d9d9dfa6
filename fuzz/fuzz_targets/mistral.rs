//! Any bytes as a stream of the `mistral` dialect.
#![no_main]

use std::sync::LazyLock;

use gw_fuzz::Dialect;
use gw_providers::settings::Api;

static DIALECT: LazyLock<Dialect> = LazyLock::new(|| Dialect::new(Api::MISTRAL));

libfuzzer_sys::fuzz_target!(|input: &[u8]| DIALECT.run(input));
