//! The callers and the code of a URL.

use gw_admin::AdminEndpoint;
use gw_engine::error::Result;
use gw_engine::request::uploads::FormKind;
use gw_engine::settings::Role;
use gw_wire::operation::{Operation, PlainOperation};
use http::Method;
use http::request::Parts;

use crate::catalogue::CatalogueCall;
use crate::generate::Generation;
use crate::listener::Listener;
use crate::management_call::ManagementFunction;
use crate::response::GatewayReply;
use crate::sign_in::SignInAction;
use crate::state::ServerState;
use crate::stored_responses::StoredResponseAction;

/// The callers that a URL accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Everyone.
    Open,
    /// Callers with a valid key.
    Key,
    /// Callers who may read the management API: viewers, operators and admins.
    ViewerKey,
    /// Viewers may read, operators and admins may change.
    OperatorKey,
    /// Viewers and operators may read, admins may change.
    AdminKey,
}

impl Guard {
    /// The role with the fewest rights that may send this method. None: the method needs no role.
    #[must_use]
    pub fn required_role(self, method: &Method) -> Option<Role> {
        let is_read = [Method::GET, Method::HEAD].contains(method);
        match self {
            Self::Open | Self::Key => None,
            Self::OperatorKey if !is_read => Some(Role::Operator),
            Self::AdminKey if !is_read => Some(Role::Admin),
            Self::ViewerKey | Self::OperatorKey | Self::AdminKey => Some(Role::Viewer),
        }
    }
}

/// The code that answers a URL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Endpoint {
    /// A generation request: the engine calls an upstream.
    Generate(Generation),
    /// A generation request that is a form with files.
    GenerateForm(FormKind),
    /// A question about a stored response.
    StoredResponse(StoredResponseAction),
    /// A question about the model catalogue. It counts as a request in flight.
    Catalogue(fn(&ServerState, CatalogueCall<'_>) -> Result<GatewayReply>),
    /// `GET /v1/me`.
    Me,
    /// The sign-in of browsers.
    SignIn(SignInAction),
    /// A page without a key that every listener serves.
    Probe(fn(&ServerState, Listener) -> GatewayReply),
    /// A page without a key that the public listener of two does not serve.
    Page(fn(&ServerState, &Parts) -> GatewayReply),
    /// `GET /`: the URLs of the listener, or the console for a browser.
    Root,
    /// The web console.
    Console,
    /// The handshake of a realtime session.
    Realtime,
    /// A URL of the configuration.
    Passthrough,
    /// A request of an operator about records: an endpoint for each method.
    Records(&'static [AdminEndpoint]),
    /// Any other request of an operator.
    Manage(ManagementFunction),
    /// `GET /admin/v1/requests/live`.
    Live,
    /// No endpoint: the answer is 404.
    NotFound,
}

/// The endpoint of an operation whose body needs no translation.
pub(super) const fn plain(operation: PlainOperation) -> Endpoint {
    if let PlainOperation::Realtime = operation {
        return Endpoint::Realtime;
    }
    match FormKind::of(operation) {
        Some(kind) => Endpoint::GenerateForm(kind),
        None => Endpoint::Generate(Generation::Answer(Operation::Plain(operation))),
    }
}
