//! The events of requests, as the program reads them.

use tokio::sync::mpsc;

use super::Engine;
use crate::occurrences::Occurrence;

impl Engine {
    /// The reader of the events of requests. There is one: None if it was taken before.
    #[must_use]
    pub fn occurrences(&self) -> Option<mpsc::Receiver<Occurrence>> {
        self.services.metrics.occurrences.take_receiver()
    }

    /// Sets whether requests tell of their events.
    pub fn watch_occurrences(&self, is_watched: bool) {
        self.services.metrics.occurrences.set_watched(is_watched);
    }
}
