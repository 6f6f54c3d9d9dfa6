//! A key of each role that only reads or operates.

pub(crate) const VIEWER: &str = "sk-test-viewer";
pub(crate) const OPERATOR: &str = "sk-test-operator";

/// The lines of the configuration with a key of each role.
pub(crate) fn keys() -> String {
    let key = |name: &str, key: &str, role: &str| {
        format!("[[keys]]\nname = \"{name}\"\nkey = \"{key}\"\nrole = \"{role}\"\nlog_payloads = true\n")
    };
    key("watcher", VIEWER, "viewer") + &key("oncall", OPERATOR, "operator")
}
