//! The interface of a store of responses outside this process, such as the database.

use std::future::Future;
use std::pin::Pin;

use super::stored_response::{Kept, ResponseFacts, ResponseWrite, StoredResponse};

/// A store of responses outside this process.
pub trait ResponseTable: Send + Sync + std::fmt::Debug {
    /// The facts about the response of this id that this key made, unless it is expired.
    fn find<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<ResponseFacts>>;
    /// The facts about a response and the ones that it continues, the newest first. Those may be expired.
    fn chain<'a>(&'a self, owner: &'a str, id: &'a str, most: u32) -> TableFuture<'a, Vec<ResponseFacts>>;
    /// Opens a response, also one that is expired.
    fn open<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<StoredResponse>>;
    /// The ids of the responses that hold these items.
    fn responses_of_items<'a>(&'a self, owner: &'a str, items: &'a [String]) -> TableFuture<'a, Vec<String>>;
    /// The bytes that a key stores. Every write of the key may ask for them, so the store keeps the sum.
    fn stored_bytes<'a>(&'a self, owner: &'a str) -> TableFuture<'a, u64>;
    /// Writes a response. `items` are the ids by which it is found beside its own.
    fn write<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
        write: ResponseWrite,
        response: &'a StoredResponse,
        items: &'a [String],
    ) -> TableFuture<'a, Kept>;
    /// Records that a response runs until this moment (unix seconds). Returns false if the response no longer runs.
    fn renew<'a>(&'a self, owner: &'a str, id: &'a str, until: u64) -> TableFuture<'a, bool>;
    /// Deletes a response. Returns whether the response existed.
    fn delete<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, bool>;
}

/// The result of a [`ResponseTable`]. An error is the store's: it cannot be reached.
pub type TableFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TableError>> + Send + 'a>>;

/// The store of responses failed. The reason is for the log.
#[derive(Debug)]
pub struct TableError(pub String);
