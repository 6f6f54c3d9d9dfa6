//! States of a stored response object that the object itself does not reach: somebody stops it, or its process dies.

use super::native::splice::ObjectSplice;
use crate::json::{ObjectWriter, View, write_str};

/// The `status` of a response object; empty if it has none.
#[must_use]
pub fn status(object: &str) -> String {
    let [status] = View::new(object).pick(["status"]);
    status.and_then(View::string).unwrap_or_default().into_owned()
}

/// Whether a response object with this status does not change any more.
#[must_use]
pub fn is_final(status: &str) -> bool {
    !matches!(status, "queued" | "in_progress")
}

/// The object with the status `cancelled`.
#[must_use]
pub fn cancelled(object: &str) -> Vec<u8> {
    with_status(object, "cancelled").apply()
}

/// The object with the status `failed` and this error.
#[must_use]
pub fn failed(object: &str, code: &str, message: &str) -> Vec<u8> {
    let mut error = Vec::new();
    let mut members = ObjectWriter::begin(&mut error);
    members.string("code", code);
    members.string("message", message);
    members.finish();
    let mut object = with_status(object, "failed");
    object.set("error", error);
    object.apply()
}

/// The object of an answer that could not be stored.
#[must_use]
pub fn not_stored(object: &str) -> Vec<u8> {
    let mut object = ObjectSplice::new(object, View::new(object));
    object.set("store", "false");
    object.apply()
}

/// The object without its output, with the status `failed` and this error.
#[must_use]
pub fn failed_without_output(object: &str, code: &str, message: &str) -> Vec<u8> {
    let mut emptied = ObjectSplice::new(object, View::new(object));
    emptied.set("output", "[]");
    // The changed text is UTF-8: it is made of such texts.
    failed(std::str::from_utf8(&emptied.apply()).unwrap_or("{}"), code, message)
}

fn with_status<'a>(object: &'a str, status: &str) -> ObjectSplice<'a> {
    let mut word = Vec::new();
    write_str(&mut word, status);
    let mut object = ObjectSplice::new(object, View::new(object));
    object.set("status", word);
    object
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn an_object_changes_its_status_and_its_error_alone() {
        let object = r#"{"id":"resp_1","status":"in_progress","error":null,"output":[{"status":"x"}]}"#;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(cancelled(object)), object.replace("in_progress", "cancelled"));
        let expected = object
            .replace("in_progress", "failed")
            .replace("null", r#"{"code":"server_error","message":"Gone \"away\"."}"#);
        assert_eq!(text(failed(object, "server_error", "Gone \"away\".")), expected);
        assert_eq!(
            (&*status(object), is_final("in_progress"), is_final("failed")),
            ("in_progress", false, true)
        );
    }
}
