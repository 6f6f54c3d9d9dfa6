//! The answers of the management API: everything that operators ask for under `/admin/v1` and on the command line.
//!
//! [`AdminService`] answers an [`AdminRequest`] about keys, teams, usage and logged requests from a store alone, so the
//! command line needs no running gateway. [`LiveAdminService`] answers for a running gateway and passes every change on to
//! its engine. The functions read the engine itself: providers, response cache, configuration, routing.

mod admin_request;
mod alerts;
mod audit;
mod body;
mod configuration;
mod configuration_requests;
mod csv;
mod diagnostics;
pub mod endpoints;
mod error;
mod ids;
mod json;
mod keys;
mod live_requests;
mod live_service;
mod me;
mod overview;
mod providers;
mod query;
mod records;
mod request_log;
mod requester;
mod response;
mod response_cache;
mod routing;
mod service;
mod sign_in;
mod spending;
mod teams;
pub mod time;
mod usage;

pub use self::admin_request::AdminRequest;
pub use self::alerts::{AlertFuture, AlertService};
pub use self::configuration::{
    ConfigurationSource, ConfigurationState, LiveConfiguration, RefusedReload, ReloadFuture, ReloadReport,
};
pub use self::configuration_requests::{
    ConfigurationAction, ConfigurationFuture, ConfigurationParameters, ConfigurationRequest,
    ConfigurationResponse, ConfigurationService,
};
pub use self::diagnostics::{Diagnostics, DiagnosticsFuture, DiagnosticsService, DrillRequest, ProbeRequest};
pub use self::endpoints::{AdminEndpoint, AdminMethod};
pub use self::error::AdminError;
pub use self::live_requests::{LiveRequest, LiveRequests};
pub use self::live_service::LiveAdminService;
pub use self::providers::list_providers;
pub use self::requester::Requester;
pub use self::response::AdminResponse;
pub use self::response_cache::{CachePurge, show_cache};
pub use self::routing::{ExplainedRoute, explain_route};
pub use self::service::AdminService;
pub use self::sign_in::{
    ABSOLUTE_SECONDS, BegunLogin, IDLE_SECONDS, IssuerSignIn, LiveSession, NewSession, NewSignInLink, SignIn,
    is_session_id,
};
