//! Any bytes as a chat: its key stays the same in every spelling, and is no other question's.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gw_fuzz::cache_key(input));
