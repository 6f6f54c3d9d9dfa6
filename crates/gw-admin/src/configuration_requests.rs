//! The requests below `/admin/v1/config/`. This crate does not know the file, so the program answers them.

use std::fmt::Debug;
use std::pin::Pin;

use bytes::Bytes;
use gw_engine::error::Error;
use gw_store::audit::AuditRecord;

use crate::endpoints::AdminMethod;
use crate::query::QueryParams;

/// Changes of a page if the query has no `limit`.
const DEFAULT_PAGE_CHANGES: usize = 100;

/// A request about the configuration.
#[derive(Clone, Debug)]
pub struct ConfigurationRequest {
    /// The method.
    pub method: AdminMethod,
    /// The decoded path below `/admin/v1/config/`, such as `providers/acme`.
    pub path: String,
    /// The parameters of the query.
    pub parameters: ConfigurationParameters,
    /// The header `If-Match`.
    pub if_match: Option<String>,
    /// The row of the audit log for a change. The object and its states are the entry's.
    pub record: AuditRecord,
    /// The body.
    pub body: Bytes,
}

/// The parameters of a request about the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigurationParameters {
    /// Whether a change is only checked.
    pub is_dry_run: bool,
    /// The most changes of a page of the history.
    pub limit: usize,
    /// The history before this change.
    pub before: i64,
}

impl ConfigurationParameters {
    /// Reads a query.
    ///
    /// # Errors
    /// An unknown parameter, or a value that is not valid.
    pub fn parse(query: &str) -> Result<Self, Error> {
        let params = QueryParams::parse(query, &["dry_run", "limit", "before"])?;
        let before = params.text("before")?.map(|text| {
            text.parse::<i64>().map_err(|_| {
                gw_engine::catalog::query::invalid(
                    "invalid_type",
                    "Invalid 'before': expected the version of a change.",
                )
            })
        });
        Ok(Self {
            is_dry_run: params.flag("dry_run")?,
            limit: params.page_size(DEFAULT_PAGE_CHANGES)?,
            before: before.transpose()?.unwrap_or(i64::MAX),
        })
    }
}

/// The answer to a request about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationResponse {
    /// JSON, or the text of a gateway.toml.
    pub body: Bytes,
    /// Whether the request created an entry: the HTTP status is 201 instead of 200.
    pub is_new: bool,
    /// Whether the body is the text of a gateway.toml.
    pub is_toml: bool,
    /// The version of the entry, which becomes the `ETag`.
    pub version: Option<i64>,
}

/// The answer of a [`ConfigurationService`], in the future.
pub type ConfigurationFuture<'s> =
    Pin<Box<dyn Future<Output = gw_engine::Result<ConfigurationResponse>> + Send + 's>>;

/// Answers the requests about the configuration.
pub trait ConfigurationService: Debug + Send + Sync {
    /// Lists the changes.
    fn history(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_>;

    /// Shows the whole configuration as the text of a gateway.toml.
    fn export(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_>;

    /// Undoes a change.
    fn undo(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_>;

    /// Shows a section or an entry.
    fn show(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_>;

    /// Puts, patches or deletes an entry.
    fn change(&self, request: ConfigurationRequest) -> ConfigurationFuture<'_>;
}

/// The function of a [`ConfigurationService`] that answers a request.
pub type ConfigurationAction =
    for<'s> fn(&'s dyn ConfigurationService, ConfigurationRequest) -> ConfigurationFuture<'s>;
