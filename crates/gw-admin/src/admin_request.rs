//! A request of an operator about keys, teams, usage or logged requests, before it is checked.

use bytes::Bytes;

use crate::endpoints::AdminEndpoint;

/// A request of an operator. It holds the id, the query and the body as they were given; the endpoint's function checks them
/// and answers with an error if they are wrong.
#[derive(Clone, Debug)]
pub struct AdminRequest {
    /// The kind of request.
    pub endpoint: AdminEndpoint,
    /// The decoded `{id}` of the URL. Empty: the URL has none.
    pub id: String,
    /// The query without its `?`.
    pub query: String,
    /// The body.
    pub body: Bytes,
    /// Whether a report is CSV if the query names no format.
    pub is_csv_preferred: bool,
}

impl AdminRequest {
    /// A request without an id, a query and a body.
    #[must_use]
    pub fn new(endpoint: AdminEndpoint) -> Self {
        Self {
            endpoint,
            id: String::new(),
            query: String::new(),
            body: Bytes::new(),
            is_csv_preferred: false,
        }
    }

    /// The request about the thing with this id.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// The request with this query.
    #[must_use]
    pub fn with_query(self, query: impl Into<String>) -> Self {
        Self { query: query.into(), ..self }
    }

    /// The request with this body.
    #[must_use]
    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }
}
