//! Open circuits that replicas tell each other of: what one has learnt the hard way, the others need not.

use std::time::Duration;

use super::Shared;

/// So many circuits are told at once.
const MOST: usize = 256;

impl Shared {
    /// Tells which circuits are open here and for how long; hears which are open anywhere, by the clock of Redis. None
    /// while Redis is away.
    pub(crate) async fn circuits(&self, open: &[(String, Duration)]) -> Option<Vec<(String, Duration)>> {
        let key = format!("{}circuits", self.core.settings.prefix);
        let call = open
            .iter()
            .take(MOST)
            .fold(self.core.call("").key(key), |call, (name, left)| call.arg(name).arg(&left.as_micros()));
        let answer = self.core.ask(&self.core.scripts.circuits, &call).await.ok()?;
        if answer.refused.is_some() {
            return None;
        }
        let mut heard = Vec::new();
        let mut at = 0;
        while !answer.field(at).is_empty() {
            let left = answer.field(at + 1).parse().map(Duration::from_micros);
            heard.extend(left.ok().map(|left| (answer.field(at).to_owned(), left)));
            at += 2;
        }
        Some(heard)
    }
}
