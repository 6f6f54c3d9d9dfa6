//! Open circuits that replicas share: a provider that fails at one replica need not fail at each of the others first.

use std::time::Duration;

use super::replica::Replica;

/// The most circuits that one call reports.
const MAX_CIRCUITS: usize = 256;

impl Replica {
    /// Tells Redis which circuits are open here and for how long. Returns those that are open at any replica, by the
    /// clock of Redis. None while Redis does not answer.
    pub(crate) async fn exchange_circuits(
        &self,
        open: &[(String, Duration)],
    ) -> Option<Vec<(String, Duration)>> {
        let mut call = self.call("").key(format!("{}circuits", self.settings.prefix));
        for (name, remaining) in open.iter().take(MAX_CIRCUITS) {
            call = call.arg(name).arg(&remaining.as_micros());
        }
        let answer = self.ask(&self.scripts.circuits, &call).await.ok()?;
        if answer.refused.is_some() {
            return None;
        }
        let pairs = answer.fields_from(0).chunks_exact(2);
        let circuit = |pair: &[String]| {
            let [name, micros] = pair else { return None };
            let remaining = Duration::from_micros(micros.parse().ok()?);
            (!name.is_empty()).then(|| (name.clone(), remaining))
        };
        Some(pairs.filter_map(circuit).collect())
    }
}
