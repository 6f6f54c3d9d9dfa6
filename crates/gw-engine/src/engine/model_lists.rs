//! The lists of models, in the shape of each API.

use bytes::Bytes;

use super::{Engine, visible};
use crate::auth::Caller;
use crate::error::Result;

impl Engine {
    /// `GET /v1/models` with its raw query string.
    ///
    /// # Errors
    /// 400 for a bad paging parameter.
    pub fn list_models(&self, caller: &Caller, query: &str) -> Result<Bytes> {
        self.snapshot().catalog.list(query, visible(caller, &|model| caller.may_use(model)))
    }

    /// `GET /v1/models` with its raw query string, in Anthropic's shape.
    ///
    /// # Errors
    /// 400 for a bad paging parameter.
    pub fn list_models_for_messages(&self, caller: &Caller, query: &str) -> Result<Bytes> {
        self.snapshot().catalog.list_for_messages(query, visible(caller, &|model| caller.may_use(model)))
    }

    /// `GET /v1/models/{id}` in Anthropic's shape, the id percent-decoded once.
    ///
    /// # Errors
    /// `model_not_found`.
    pub fn model_for_messages(&self, caller: &Caller, id: &str) -> Result<Bytes> {
        self.snapshot().catalog.retrieve_for_messages(id, visible(caller, &|model| caller.may_use(model)))
    }

    /// `GET /v1beta/models` with its raw query string, in Google's shape.
    ///
    /// # Errors
    /// 400 for a bad paging parameter.
    pub fn list_models_for_gemini(&self, caller: &Caller, query: &str) -> Result<Bytes> {
        self.snapshot().catalog.list_for_gemini(query, visible(caller, &|model| caller.may_use(model)))
    }

    /// `GET /v1beta/models/{id}`, the id percent-decoded once, in Google's shape.
    ///
    /// # Errors
    /// `model_not_found`.
    pub fn model_for_gemini(&self, caller: &Caller, id: &str) -> Result<Bytes> {
        self.snapshot().catalog.retrieve_for_gemini(id, visible(caller, &|model| caller.may_use(model)))
    }

    /// `GET /v1/models/{id}`, the id percent-decoded once.
    ///
    /// # Errors
    /// `model_not_found`.
    pub fn model(&self, caller: &Caller, id: &str) -> Result<Bytes> {
        self.snapshot().catalog.retrieve(id, visible(caller, &|model| caller.may_use(model)))
    }

    /// `GET /v1/models/compare` with its raw query string.
    ///
    /// # Errors
    /// 400 for an unknown parameter or model.
    pub fn compare(&self, caller: &Caller, query: &str) -> Result<Bytes> {
        self.snapshot().catalog.compare(query, visible(caller, &|model| caller.may_use(model)))
    }
}
