//! The calls of a native stream. Their arguments go to the client piece by piece, as they come, so a fault in them is
//! found at the end.

use crate::json::{ScanError, check};

/// The most calls whose arguments are kept at once. The API ends a call before it begins the next one.
const MAX_KEPT_CALLS: usize = 16;

/// The most bytes of a call's arguments that are kept. A longer call is not checked.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// The calls whose arguments are no JSON so far, and the last call.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct NativeCalls {
    kept: Vec<NativeCall>,
}

/// The number of a call, and its arguments so far.
#[derive(Clone, Debug)]
struct NativeCall {
    call: u32,
    arguments: String,
}

impl NativeCall {
    /// Whether no client can read the arguments. Empty arguments are an empty object.
    fn is_broken(&self) -> bool {
        // A text of too many levels may be JSON.
        let is_faulty = || matches!(check(&self.arguments), Err(ScanError::Syntax(_)));
        !self.arguments.trim_ascii().is_empty() && is_faulty()
    }
}

impl NativeCalls {
    /// Begins a call. The call before it is forgotten if its arguments are JSON.
    pub(in super::super) fn start(&mut self, call: u32) {
        self.kept.pop_if(|last| !last.is_broken());
        if self.kept.len() < MAX_KEPT_CALLS {
            self.kept.push(NativeCall { call, arguments: String::new() });
        }
    }

    /// Takes a fragment of a call's arguments.
    pub(in super::super) fn push(&mut self, call: u32, fragment: &str) {
        let Some(at) = self.kept.iter().rposition(|kept| kept.call == call) else { return };
        match self.kept.get_mut(at) {
            Some(kept) if kept.arguments.len() + fragment.len() <= MAX_KEPT_BYTES => {
                kept.arguments.push_str(fragment);
            }
            _ => _ = self.kept.remove(at),
        }
    }

    /// Whether the client could not read the arguments of a call.
    pub(in super::super) fn has_broken(&self) -> bool {
        self.kept.iter().any(NativeCall::is_broken)
    }

    /// Bytes that are kept.
    pub(in super::super) fn held_bytes(&self) -> usize {
        self.kept.iter().map(|kept| size_of::<NativeCall>() + kept.arguments.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a stream of these calls has one that no client can read.
    fn is_broken(calls: &[&[&str]]) -> bool {
        let mut native = NativeCalls::default();
        for (call, pieces) in (0..).zip(calls) {
            native.start(call);
            pieces.iter().for_each(|piece| native.push(call, piece));
        }
        native.has_broken()
    }

    #[test]
    fn a_call_that_is_no_json_is_found_wherever_it_stands() {
        let whole: &[&str] = &["{\"path\"", ": \"/etc\"}"];
        for broken in ["{\"path\": \"/et", "{city: Oslo}", "{\"a\":1,}", "{}{\"a\":1}", "{", "no JSON"] {
            let pieces: Vec<&str> = broken.split_inclusive(':').collect();
            let pieces = &pieces[..];
            for calls in [&[pieces][..], &[whole, pieces], &[pieces, whole], &[whole, pieces, whole]] {
                assert!(is_broken(calls), "{calls:?}");
            }
        }
        let deep = "{\"a\":".repeat(5000) + "1" + &"}".repeat(5000);
        for fine in [&["{}"][..], &["{", "}"], &[], &[" "], &["null"], &[deep.as_str()], whole] {
            assert!(!is_broken(&[fine, whole, fine]), "{fine:?}");
        }
    }

    #[test]
    fn calls_that_are_open_at_once_are_whole_at_the_end() {
        let mut native = NativeCalls::default();
        native.start(0);
        native.push(0, "{\"a\":");
        native.start(1);
        native.push(1, "{}");
        assert!(native.has_broken());
        native.push(0, "1}");
        assert!(!native.has_broken());
    }

    #[test]
    fn few_bytes_of_few_calls_are_kept() {
        let mut native = NativeCalls::default();
        for call in 0..100 {
            native.start(call);
            native.push(call, "{\"a\":");
        }
        assert!(native.has_broken() && native.held_bytes() < 2048, "{}", native.held_bytes());
        let mut native = NativeCalls::default();
        native.start(0);
        native.push(0, "\"");
        native.push(0, &"a".repeat(MAX_KEPT_BYTES - 1));
        assert!(native.has_broken());
        native.push(0, "a");
        assert_eq!((native.has_broken(), native.held_bytes()), (false, 0));
    }
}
