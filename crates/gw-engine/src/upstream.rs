//! Upstream calls: the loop of attempts, and how each kind of answer is read.

pub(crate) mod attempts;
pub(crate) mod choices;
pub(crate) mod dispatch;
pub(crate) mod embeddings;
mod equal_content;
mod hedge;
mod images;
pub(crate) mod merge;
pub(crate) mod one_shot;
mod opening;
pub(crate) mod outcome;
mod part_retries;
mod progress_notes;
pub(crate) mod replay;
pub(crate) mod resume;
mod retry_pause;
mod socket;
pub(crate) mod stream;
pub(crate) mod unary;
