//! The reader of HTTP/1.1 responses. Its files are a part of this crate, too, because no other crate needs to call it.

#[path = "../../crates/gw-providers/src/client/http1/framing.rs"]
mod framing;

#[expect(dead_code, reason = "it also writes requests")]
#[path = "../../crates/gw-providers/src/client/http1/head.rs"]
mod head;

#[path = "../../crates/gw-providers/src/client/http1/property.rs"]
pub(crate) mod property;
