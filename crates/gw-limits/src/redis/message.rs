//! Messages that Redis gets after a request: settlements, and places among the requests in flight that are free again.

use std::sync::Arc;

use crate::subject::Subject;

/// A message about one request.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) request_id: Box<str>,
    pub(crate) subjects: Vec<Arc<Subject>>,
    pub(crate) kind: MessageKind,
    /// When the request began, in microseconds of `Replica::now`.
    pub(crate) begun: f64,
}

/// The contents of a message.
#[derive(Debug)]
pub(crate) enum MessageKind {
    /// The request is not in flight any more.
    Release,
    /// Another target serves the request, so that it does not count in the requests per minute.
    TakeBack {
        /// A moment of the bucket that counts the request, for each subject, in microseconds of the scripts' clock.
        moments: Vec<f64>,
    },
    /// The request is over.
    Settle(Settlement),
}

/// The reservation of a request and its real usage.
#[derive(Debug, Default)]
pub(crate) struct Settlement {
    pub(crate) reserved_tokens: u64,
    /// Nano-USD. None if the reservation is not known.
    pub(crate) reserved_nano: Option<u64>,
    pub(crate) used_tokens: u64,
    /// Nano-USD.
    pub(crate) cost_nano: u64,
    /// The epochs of the subjects' states, separated by commas.
    pub(crate) epochs: String,
}

impl Message {
    pub(crate) fn new(request_id: &str, subjects: Vec<Arc<Subject>>, kind: MessageKind) -> Self {
        Self { request_id: request_id.into(), subjects, kind, begun: 0.0 }
    }

    pub(crate) fn settlement_mut(&mut self) -> Option<&mut Settlement> {
        match &mut self.kind {
            MessageKind::Settle(settlement) => Some(settlement),
            MessageKind::Release | MessageKind::TakeBack { .. } => None,
        }
    }
}
