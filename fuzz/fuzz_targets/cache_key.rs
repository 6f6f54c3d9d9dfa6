//! Any bytes as a chat: its cache key is equal in every spelling and differs from the keys of other chats.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gw_fuzz::cache_key(input));
