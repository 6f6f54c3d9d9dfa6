//! The rows of a table whose answers differ.

use crate::Response;

/// The rows of a table whose answers differ from the expected ones. One run names them all.
#[derive(Default)]
pub struct Differences(Vec<String>);

impl Differences {
    /// Notes the row when the two values differ.
    #[expect(clippy::needless_pass_by_value, reason = "a row of a table is written with values")]
    pub fn check<T: PartialEq + std::fmt::Debug>(
        &mut self,
        label: impl std::fmt::Display,
        got: T,
        expected: T,
    ) {
        if got != expected {
            self.0.push(format!("{label:.120}: {got:?}, expected {expected:?}"));
        }
    }

    /// Notes the row when status and error code differ. A success has the code "".
    pub fn answer(&mut self, label: impl std::fmt::Display, answer: &Response, (status, code): (u16, &str)) {
        self.check(label, (answer.status, answer.code()), (status, code.to_owned()));
    }

    /// Fails when a row differed.
    #[track_caller]
    pub fn finish(self) {
        assert!(self.0.is_empty(), "{} rows differ:\n{}", self.0.len(), self.0.join("\n"));
    }
}
