//! Any bytes as a Messages request, translated and forwarded.
#![no_main]

use std::sync::LazyLock;

use gw_fuzz::Requests;

static REQUESTS: LazyLock<Requests> = LazyLock::new(Requests::new);

libfuzzer_sys::fuzz_target!(|input: &[u8]| REQUESTS.messages(input));
