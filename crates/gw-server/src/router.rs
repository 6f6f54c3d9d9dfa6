//! Every URL of the gateway, in one table. To add a URL, add a row to [`ROUTES`].

use std::borrow::Cow;

use gw_admin::AdminRequest;
use gw_engine::error::Result;
use gw_engine::settings::Role;
use http::Method;

use crate::admin::{self, AdminCall};
use crate::catalogue::{self, CatalogueCall};
use crate::cors::Audience;
use crate::listener::Listener;
use crate::metrics::RouteLabel;
use crate::ops;
use crate::percent_decoding::decode;
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

/// One row of the table: a URL, its methods, its guard and its endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The URL, with `{id}` for its variable part. Metrics and log lines use it as the label `route`.
    pub pattern: &'static str,
    /// The methods, as the `Allow` header of a 405 lists them. None: the answer is 404 whatever the method.
    pub methods: Option<&'static str>,
    /// The callers that the URL accepts.
    pub guard: Guard,
    endpoint: Endpoint,
}

/// The code that answers a URL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Endpoint {
    /// A generation request: the engine calls an upstream.
    Generate(Operation),
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
    Page(fn() -> GatewayReply),
    /// The metrics, in the format that the reader asks for.
    Metrics,
    /// A report for operators from the memory of this process.
    Status(fn(&ServerState) -> Result<GatewayReply>),
    /// A management request, which the store answers.
    Admin(fn(AdminCall) -> Result<AdminRequest>),
    /// `POST /admin/v1/routing/explain`.
    Explain,
    /// `/admin/v1/cache`.
    Cache,
    /// The URLs below `/admin/v1/config/`.
    Configuration,
    /// `POST /admin/v1/reload`.
    Reload,
    /// No endpoint: the answer is 404.
    NotFound,
}

/// The kinds of generation requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Chat,
    Completion,
    Embeddings,
    Messages,
    Responses,
    /// `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.
    CountTokens,
    /// `POST /v1/responses/compact`.
    Compact,
}

const GET: Option<&str> = Some("GET, HEAD, OPTIONS");
const POST: Option<&str> = Some("POST, OPTIONS");
const DELETE: Option<&str> = Some("DELETE, OPTIONS");
const GET_DELETE: Option<&str> = Some("GET, HEAD, DELETE, OPTIONS");
const GET_POST: Option<&str> = Some("GET, HEAD, POST, OPTIONS");
const GET_PATCH_DELETE: Option<&str> = Some("GET, HEAD, PATCH, DELETE, OPTIONS");
const GET_PUT_PATCH_DELETE: Option<&str> = Some("GET, HEAD, PUT, PATCH, DELETE, OPTIONS");
const GET_PUT_DELETE: Option<&str> = Some("GET, HEAD, PUT, DELETE, OPTIONS");

const fn route(
    pattern: &'static str,
    methods: Option<&'static str>,
    guard: Guard,
    endpoint: Endpoint,
) -> Route {
    Route { pattern, methods, guard, endpoint }
}

const UNKNOWN: Route = route("unknown", None, Guard::Open, Endpoint::NotFound);

/// The Responses API. Its GET is the handshake of a WebSocket.
const RESPONSES: &str = "/v1/responses";
/// A section of the configuration.
const CONFIG_SECTION: &str = "/admin/v1/config/{id}";
/// An entry of a section. Its name may contain slashes, as the ids of models do.
const CONFIG_ENTRY: &str = "/admin/v1/config/{id}/{id}";

/// Every URL. The first row that matches a path answers it, so a literal stands above the `{id}` that it could be.
pub static ROUTES: &[Route] = &{
    use Endpoint::{
        Admin, Cache, Catalogue, Configuration, Explain, Generate, Me, Metrics, NotFound, Page, Probe,
        Reload, SignIn, Status, StoredResponse,
    };
    use Guard::{AdminKey, Key, Open, OperatorKey, ViewerKey};
    [
        route("/v1/chat/completions", POST, Key, Generate(Operation::Chat)),
        route("/v1/completions", POST, Key, Generate(Operation::Completion)),
        route("/v1/embeddings", POST, Key, Generate(Operation::Embeddings)),
        route("/v1/messages", POST, Key, Generate(Operation::Messages)),
        route("/v1/messages/count_tokens", POST, Key, Generate(Operation::CountTokens)),
        route(RESPONSES, GET_POST, Key, Generate(Operation::Responses)),
        route("/v1/responses/input_tokens", POST, Key, Generate(Operation::CountTokens)),
        route("/v1/responses/compact", POST, Key, Generate(Operation::Compact)),
        route("/v1/responses/{id}", GET_DELETE, Key, StoredResponse(StoredResponseAction::Object)),
        route("/v1/responses/{id}/cancel", POST, Key, StoredResponse(StoredResponseAction::Cancel)),
        route("/v1/responses/{id}/input_items", GET, Key, StoredResponse(StoredResponseAction::InputItems)),
        route("/v1/models", GET, Key, Catalogue(catalogue::list)),
        route("/v1/models/compare", GET, Key, Catalogue(catalogue::compare)),
        route("/v1/models/{id}", GET, Key, Catalogue(catalogue::model)),
        route("/v1/me", GET, Key, Me),
        route("/v1/*", None, Key, NotFound),
        route("/healthz", GET, Open, Probe(ops::healthz)),
        route("/readyz", GET, Open, Probe(ops::readyz)),
        route("/", GET, Open, Probe(ops::links)),
        route("/openapi.json", GET, Open, Page(ops::openapi)),
        route("/docs", GET, Open, Page(ops::docs)),
        route("/metrics", GET, ViewerKey, Metrics),
        route("/admin/v1/providers", GET, ViewerKey, Status(ops::providers)),
        route("/admin/v1/config", GET, ViewerKey, Status(ops::configuration)),
        route("/admin/v1/reload", POST, OperatorKey, Reload),
        route("/admin/v1/keys", GET_POST, OperatorKey, Admin(admin::keys)),
        route("/admin/v1/keys/{id}", GET_PATCH_DELETE, OperatorKey, Admin(admin::key)),
        route("/admin/v1/keys/{id}/rotate", POST, OperatorKey, Admin(admin::rotate_key)),
        route("/admin/v1/teams", GET, ViewerKey, Admin(admin::teams)),
        route("/admin/v1/teams/{id}", GET_PUT_DELETE, OperatorKey, Admin(admin::team)),
        route("/admin/v1/usage", GET, ViewerKey, Admin(admin::usage)),
        route("/admin/v1/requests", GET, ViewerKey, Admin(admin::requests)),
        route("/admin/v1/requests/{id}", GET, ViewerKey, Admin(admin::request)),
        route("/admin/v1/requests/{id}/payload", DELETE, AdminKey, Admin(admin::forget_payload)),
        route("/admin/v1/routing/explain", POST, ViewerKey, Explain),
        route("/admin/v1/cache", GET_DELETE, OperatorKey, Cache),
        route("/admin/v1/audit", GET, ViewerKey, Admin(admin::audit)),
        route("/admin/v1/config/history", GET, AdminKey, Configuration),
        route("/admin/v1/config/export", GET, AdminKey, Configuration),
        route("/admin/v1/config/undo", POST, AdminKey, Configuration),
        route(CONFIG_SECTION, GET_PUT_PATCH_DELETE, AdminKey, Configuration),
        route(CONFIG_ENTRY, GET_PUT_PATCH_DELETE, AdminKey, Configuration),
        route("/admin/v1/*", None, ViewerKey, NotFound),
        route("/auth/login", GET, Open, SignIn(SignInAction::Login)),
        route("/auth/callback", GET, Open, SignIn(SignInAction::Callback)),
        route("/auth/session", GET, Open, SignIn(SignInAction::Page)),
        route("/auth/logout", POST, Open, SignIn(SignInAction::Logout)),
        UNKNOWN,
    ]
};

/// The names that other gateways give to the probes.
const PROBE_ALIASES: [(&str, &str); 4] = [
    ("/health", "/healthz"),
    ("/health/liveliness", "/healthz"),
    ("/health/liveness", "/healthz"),
    ("/health/readiness", "/readyz"),
];

/// The route of a path, with the id in the path.
#[derive(Clone, Debug)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) route: Route,
    index: usize,
    /// The decoded `{id}`. None: the pattern has no id, or the id is not valid percent-encoded UTF-8.
    pub(crate) id: Option<Cow<'a, str>>,
}

/// Finds the route of a path. A slash at the end of the path is not significant.
pub(crate) fn find(path: &str, listener: Listener) -> RouteMatch<'_> {
    let path = match path.strip_suffix('/') {
        None | Some("" | "/") => path,
        Some(shorter) => shorter,
    };
    let alias = PROBE_ALIASES.iter().find(|(alias, _)| *alias == path);
    let path = alias.map_or(path, |(_, probe)| probe);
    let routes = ROUTES.iter().enumerate().filter(|(_, route)| route.is_served_by(listener));
    let mut matches = routes
        .filter_map(|(index, route)| Some(RouteMatch { route: *route, index, id: route.matches(path)? }));
    let last = ROUTES.len().saturating_sub(1);
    matches.next().unwrap_or(RouteMatch { route: UNKNOWN, index: last, id: None })
}

/// The labels of the routes that call an upstream for an answer.
pub(crate) fn generation_routes() -> impl Iterator<Item = RouteLabel> {
    let routes = ROUTES.iter().enumerate();
    let is_answered = |operation| !matches!(operation, Operation::CountTokens | Operation::Compact);
    let generation = routes.filter(
        move |(_, route)| matches!(route.endpoint, Endpoint::Generate(operation) if is_answered(operation)),
    );
    generation.map(|(index, route)| route.label(index))
}

impl RouteMatch<'_> {
    /// The label of metrics and log lines.
    pub(crate) fn label(&self) -> RouteLabel {
        self.route.label(self.index)
    }
}

impl Route {
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    fn label(&self, index: usize) -> RouteLabel {
        let methods = self.methods.unwrap_or("GET");
        let main_method = methods.split(',').next().unwrap_or(methods);
        RouteLabel { index, pattern: self.pattern, main_method }
    }

    fn is_api(&self) -> bool {
        self.pattern.starts_with("/v1/")
    }

    fn is_served_by(&self, listener: Listener) -> bool {
        match listener {
            Listener::Single => true,
            Listener::Public => self.is_api() || matches!(self.endpoint, Endpoint::Probe(_)),
            Listener::Admin => !self.is_api(),
        }
    }

    /// Some: the path leads to this route. The inner option is the decoded `{id}`.
    fn matches<'a>(&self, path: &'a str) -> Option<Option<Cow<'a, str>>> {
        if let Some(parent) = self.pattern.strip_suffix("/*") {
            let below = path.strip_prefix(parent)?;
            return (below.is_empty() || below.starts_with('/')).then_some(None);
        }
        if self.pattern == path && !path.contains('{') {
            return Some(None);
        }
        if [CONFIG_SECTION, CONFIG_ENTRY].contains(&self.pattern) {
            let rest = path.strip_prefix("/admin/v1/config/").filter(|rest| !rest.is_empty())?;
            return (rest.contains('/') == (self.pattern == CONFIG_ENTRY)).then(|| decode(rest));
        }
        let (pattern, path) = (Item::split(self.pattern)?, Item::split(path)?);
        if (pattern.collection, pattern.action) != (path.collection, path.action) {
            return None;
        }
        let id = decode(path.id);
        match pattern.id {
            "{id}" => Some(id),
            literal => (id.as_deref() == Some(literal)).then_some(None),
        }
    }

    /// The audience whose web pages may read the answers.
    pub(crate) fn audience(&self) -> Audience {
        let is_sign_in = matches!(self.endpoint, Endpoint::SignIn(_));
        let is_for_users = self.guard.required_role(&Method::GET).is_none()
            && self.pattern != UNKNOWN.pattern
            && !is_sign_in;
        if is_for_users { Audience::Users } else { Audience::Operators }
    }

    /// The methods in the answer to a CORS preflight. All of `/v1` gives the same methods, so that a preflight does not
    /// tell which URLs exist.
    pub(crate) fn preflight_methods(&self) -> &'static str {
        match self.audience() {
            Audience::Users => "GET, POST, DELETE, OPTIONS",
            Audience::Operators => self.methods.unwrap_or("GET, POST, OPTIONS"),
        }
    }

    /// Whether the method asks for a WebSocket, which the gateway does not have.
    pub(crate) fn is_socket(&self, method: &Method) -> bool {
        self.pattern == RESPONSES && [Method::GET, Method::HEAD].contains(method)
    }

    /// The `Allow` header of a 405, when the route does not have this method.
    pub(crate) fn method_error(&self, method: &Method) -> Option<&'static str> {
        let methods = self.methods?;
        // Most routes have one method.
        if methods == method.as_str() {
            return None;
        }
        methods.split(", ").all(|allowed| allowed != method.as_str()).then_some(methods)
    }
}

/// A path below a collection, such as `/admin/v1/keys/{id}/rotate`. Only the id is percent-decoded.
struct Item<'a> {
    collection: &'a str,
    id: &'a str,
    action: Option<&'a str>,
}

impl<'a> Item<'a> {
    fn split(path: &'a str) -> Option<Self> {
        const MODELS: &str = "/v1/models";
        // The id of a model may contain slashes. In other ids a slash is written `%2F`.
        if let Some(id) = path.strip_prefix(MODELS).and_then(|rest| rest.strip_prefix('/')) {
            return Some(Self { collection: MODELS, id, action: None });
        }
        let (collection, rest) = match path.strip_prefix("/v1/responses/") {
            Some(rest) => ("responses", rest),
            None => path.strip_prefix("/admin/v1/")?.split_once('/')?,
        };
        let (id, action) = rest.split_once('/').map_or((rest, None), |(id, action)| (id, Some(action)));
        Some(Self { collection, id, action })
    }
}

#[cfg(test)]
mod tests;
