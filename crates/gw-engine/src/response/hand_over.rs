//! The edge's record of a request whose answer is made in the background: it goes with the call and ends with it.

use bytes::Bytes;
use tokio::sync::oneshot;

/// The edge's record of a request: its permits, its payload, its trace and its line of the access log. Dropping it ends the
/// request.
pub trait AnswerRecord: Send + std::fmt::Debug {
    /// A piece of the answer was made.
    fn made(&mut self, bytes: &Bytes);
}

/// The way of a record to the call in the background. The call begins when the record has come, and is given up if it never
/// comes.
#[derive(Debug)]
pub struct RecordHandOver(oneshot::Sender<Box<dyn AnswerRecord>>);

/// The end of the way.
pub(crate) type ComingRecord = oneshot::Receiver<Box<dyn AnswerRecord>>;

impl RecordHandOver {
    /// A way and its end.
    pub(crate) fn new() -> (Self, ComingRecord) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Hands the record to the call. If the call has ended already, the record ends here.
    pub fn give(self, record: Box<dyn AnswerRecord>) {
        drop(self.0.send(record));
    }
}
