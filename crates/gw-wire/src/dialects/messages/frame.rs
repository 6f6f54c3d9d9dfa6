//! One frame of an event stream.

use crate::render::put;

/// The event that keeps a connection open.
pub(super) const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

/// Writes a frame whose data is one line.
pub(super) fn put_frame(out: &mut Vec<u8>, name: &str, data: &str) {
    out.reserve(name.len() + data.len() + 18);
    put(out, "event: ");
    put(out, name);
    put(out, "\ndata: ");
    if data.bytes().any(|byte| byte == b'\n' || byte == b'\r') {
        // Line breaks in JSON stand between its values.
        out.extend(data.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
    } else {
        put(out, data);
    }
    put(out, "\n\n");
}
