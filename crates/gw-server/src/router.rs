//! Every URL of the gateway, in one table. To add a URL, add a row to [`ROUTES`].

mod aliases;
mod endpoint;

use std::borrow::Cow;

use gw_admin::endpoints;
use gw_engine::passthrough_routes::PassthroughMatch;
use gw_engine::request::uploads::FormKind;
use gw_wire::dialects::gemini::GeminiMethod;
use gw_wire::operation::{Operation, PlainOperation};
use gw_wire::percent::decode;
use http::Method;
use http::request::Parts;

use self::aliases::of_alias;
pub(crate) use self::endpoint::Endpoint;
pub use self::endpoint::Guard;
use self::endpoint::plain;
use crate::admin;
use crate::catalogue;
use crate::configuration;
use crate::cors::Audience;
use crate::gemini_url;
use crate::generate::Generation;
use crate::listener::Listener;
use crate::metrics::RouteLabel;
use crate::ops;
use crate::sign_in::SignInAction;
use crate::stored_responses::StoredResponseAction;

/// One row of the table: a URL, its methods, its guard and its endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The URL, with `{id}` for its variable part. Metrics and log lines use it as the label `route`.
    pub pattern: &'static str,
    /// The methods, as the `Allow` header of a 405 lists them. None: the answer is 404 whatever the method.
    pub methods: Option<&'static str>,
    /// The callers that the URL accepts.
    pub guard: Guard,
    matching: Matching,
    /// Where the first `{id}` of the pattern begins. Without one: where its last segment begins.
    variable_part: usize,
    endpoint: Endpoint,
}

/// How a path is compared with the pattern of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matching {
    /// The path is the pattern.
    Whole,
    /// The path is the pattern, but its last segment may be percent-encoded, because it stands where ids stand.
    EncodedName,
    /// The path has a segment in the place of `{id}`. A slash in an id is written `%2F`.
    Segment,
    /// The path has the rest of its text in the place of the pattern's end, which is `{id}` or `{id}/{id}`. The last id may
    /// contain slashes.
    Rest,
    /// The path is the URL before `/*`, or a URL below it.
    Below,
    /// The path has a model, which may contain slashes, and this method behind a colon. Google's API has several beginnings
    /// of such a path.
    ModelMethod(GeminiMethod),
}

const GET: Option<&str> = Some("GET, HEAD, OPTIONS");
const POST: Option<&str> = Some("POST, OPTIONS");
const DELETE: Option<&str> = Some("DELETE, OPTIONS");
const ALL: Option<&str> = Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
const GET_DELETE: Option<&str> = Some("GET, HEAD, DELETE, OPTIONS");
const GET_POST: Option<&str> = Some("GET, HEAD, POST, OPTIONS");
const GET_PATCH_DELETE: Option<&str> = Some("GET, HEAD, PATCH, DELETE, OPTIONS");
const GET_PUT_PATCH_DELETE: Option<&str> = Some("GET, HEAD, PUT, PATCH, DELETE, OPTIONS");
const GET_PUT_DELETE: Option<&str> = Some("GET, HEAD, PUT, DELETE, OPTIONS");

/// A row. Its pattern tells how paths are compared with it, unless [`Route::encoded_name`] or [`Route::rest_is_id`] says more.
const fn route(
    pattern: &'static str,
    methods: Option<&'static str>,
    guard: Guard,
    endpoint: Endpoint,
) -> Route {
    let (mut matching, mut variable_part, mut at, mut rest) = (Matching::Whole, 0, 0, pattern.as_bytes());
    while let [first, after @ ..] = rest {
        (at, rest) = (at + 1, after);
        match *first {
            b'{' => {
                matching = Matching::Segment;
                break;
            }
            b'*' => matching = Matching::Below,
            b'/' => variable_part = at,
            _ => {}
        }
    }
    Route { pattern, methods, guard, matching, variable_part, endpoint }
}

/// The row of a method of a model in the Gemini API.
const fn gemini_route(method: GeminiMethod, generation: Generation) -> Route {
    let pattern = match method {
        GeminiMethod::Generate => Operation::Gemini.row().path,
        GeminiMethod::Stream => "/v1beta/models/{id}:streamGenerateContent",
        GeminiMethod::CountTokens => "/v1beta/models/{id}:countTokens",
        GeminiMethod::Embed => "/v1beta/models/{id}:embedContent",
        GeminiMethod::BatchEmbed => "/v1beta/models/{id}:batchEmbedContents",
    };
    let row = route(pattern, POST, Guard::Key, Endpoint::Generate(generation));
    Route { matching: Matching::ModelMethod(method), ..row }
}

const UNKNOWN: Route = route("unknown", None, Guard::Open, Endpoint::NotFound);

/// The routes of `[[passthrough]]`. No path is this pattern: [`crate::passthrough::find`] finds the routes.
const PASSTHROUGH: Route = route("passthrough", ALL, Guard::Key, Endpoint::Passthrough);

/// The Responses API. Its GET is the handshake of a WebSocket.
const RESPONSES: &str = Operation::Responses.row().path;

/// Every URL. The first row that matches a path answers it, so a literal stands above the `{id}` that it could be.
pub static ROUTES: &[Route] = &all_routes::<{ PlainOperation::ALL.len() + OTHERS.len() }>();

/// The URLs of the operations whose body needs no translation, and all others.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it")]
const fn all_routes<const COUNT: usize>() -> [Route; COUNT] {
    let plain_count = PlainOperation::ALL.len();
    let (mut routes, mut at) = ([UNKNOWN; COUNT], 0);
    while at < COUNT {
        routes[at] = if at < plain_count {
            let operation = PlainOperation::ALL[at];
            let endpoint = plain(operation);
            let methods = if let Endpoint::Realtime = endpoint { GET } else { POST };
            route(operation.row().path, methods, Guard::Key, endpoint)
        } else {
            OTHERS[at - plain_count]
        };
        at += 1;
    }
    routes
}

/// The URLs other than those of a [`PlainOperation`].
const OTHERS: &[Route] = &{
    use Endpoint::{
        Catalogue, Console, Generate, GenerateForm, Live, Manage, Me, NotFound, Page, Probe, Records, Root,
        SignIn, StoredResponse,
    };
    use Guard::{AdminKey, Key, Open, OperatorKey, ViewerKey};
    use endpoints::{
        CREATE_KEY, DELETE_PAYLOAD, DELETE_TEAM, LIST_AUDIT, LIST_KEYS, LIST_REQUESTS, LIST_TEAMS, PUT_TEAM,
        REPORT_USAGE, REVOKE_KEY, ROTATE_KEY, SHOW_KEY, SHOW_OVERVIEW, SHOW_REQUEST, SHOW_TEAM, UPDATE_KEY,
    };
    [
        route(Operation::Messages.row().path, POST, Key, Generate(Generation::Answer(Operation::Messages))),
        route("/v1/messages/count_tokens", POST, Key, Generate(Generation::CountTokens)),
        route(RESPONSES, GET_POST, Key, Generate(Generation::Answer(Operation::Responses))),
        route("/v1/responses/input_tokens", POST, Key, Generate(Generation::CountTokens)).encoded_name(),
        route("/v1/responses/compact", POST, Key, Generate(Generation::Compact)).encoded_name(),
        route("/v1/responses/{id}", GET_DELETE, Key, StoredResponse(StoredResponseAction::Object)),
        route("/v1/responses/{id}/cancel", POST, Key, StoredResponse(StoredResponseAction::Cancel)),
        route("/v1/responses/{id}/input_items", GET, Key, StoredResponse(StoredResponseAction::InputItems)),
        route("/v1/images/edits", POST, Key, GenerateForm(FormKind::ImageEdit)),
        route("/v1/images/variations", POST, Key, GenerateForm(FormKind::ImageVariation)),
        gemini_route(GeminiMethod::Generate, Generation::Answer(Operation::Gemini)),
        gemini_route(GeminiMethod::Stream, Generation::Answer(Operation::Gemini)),
        gemini_route(GeminiMethod::CountTokens, Generation::CountTokens),
        gemini_route(GeminiMethod::Embed, Generation::Answer(Operation::Gemini)),
        gemini_route(GeminiMethod::BatchEmbed, Generation::Answer(Operation::Gemini)),
        route("/v1beta/models", GET, Key, Catalogue(catalogue::list)),
        route("/v1beta/models/{id}", GET, Key, Catalogue(catalogue::model)).rest_is_id(),
        route("/v1beta/*", None, Key, NotFound),
        route("/v1/models", GET, Key, Catalogue(catalogue::list)),
        route("/v1/models/compare", GET, Key, Catalogue(catalogue::compare)).encoded_name(),
        route("/v1/models/{id}", GET, Key, Catalogue(catalogue::model)).rest_is_id(),
        route("/v1/me", GET, Key, Me),
        route("/v1/*", None, Key, NotFound),
        route("/healthz", GET, Open, Probe(ops::healthz)),
        route("/readyz", GET, Open, Probe(ops::readyz)),
        route("/", GET, Open, Root),
        route("/ui/*", GET, Open, Console),
        route("/openapi.json", GET, Open, Page(ops::openapi)),
        route("/docs", GET, Open, Page(ops::docs)),
        route("/metrics", GET, ViewerKey, Manage(admin::metrics)),
        route("/admin/v1/providers", GET, ViewerKey, Manage(admin::providers)),
        route("/admin/v1/config", GET, ViewerKey, Manage(admin::loaded_configuration)),
        route("/admin/v1/budgets", GET, ViewerKey, Manage(admin::budgets)),
        route("/admin/v1/reload", POST, OperatorKey, Manage(admin::reload)),
        route("/admin/v1/keys", GET_POST, OperatorKey, Records(&[LIST_KEYS, CREATE_KEY])),
        route(
            "/admin/v1/keys/{id}",
            GET_PATCH_DELETE,
            OperatorKey,
            Records(&[SHOW_KEY, UPDATE_KEY, REVOKE_KEY]),
        ),
        route("/admin/v1/keys/{id}/rotate", POST, OperatorKey, Records(&[ROTATE_KEY])),
        route("/admin/v1/teams", GET, ViewerKey, Records(&[LIST_TEAMS])),
        route(
            "/admin/v1/teams/{id}",
            GET_PUT_DELETE,
            OperatorKey,
            Records(&[SHOW_TEAM, PUT_TEAM, DELETE_TEAM]),
        ),
        route("/admin/v1/usage", GET, ViewerKey, Records(&[REPORT_USAGE])),
        route("/admin/v1/overview", GET, ViewerKey, Records(&[SHOW_OVERVIEW])),
        route("/admin/v1/requests", GET, ViewerKey, Records(&[LIST_REQUESTS])),
        route("/admin/v1/requests/live", GET, ViewerKey, Live).encoded_name(),
        route("/admin/v1/requests/{id}", GET, ViewerKey, Records(&[SHOW_REQUEST])),
        route("/admin/v1/requests/{id}/payload", DELETE, AdminKey, Records(&[DELETE_PAYLOAD])),
        route("/admin/v1/routing/explain", POST, ViewerKey, Manage(admin::explain)).encoded_name(),
        route("/admin/v1/routing/drill", POST, OperatorKey, Manage(admin::drill)).encoded_name(),
        route("/admin/v1/providers/{id}/probe", POST, OperatorKey, Manage(admin::probe)),
        route("/admin/v1/cache", GET_DELETE, OperatorKey, Manage(admin::cache)),
        route("/admin/v1/alerts", GET, ViewerKey, Manage(admin::alerts)),
        route("/admin/v1/alerts/{id}/test", POST, OperatorKey, Manage(admin::test_alert)),
        route("/admin/v1/audit", GET, ViewerKey, Records(&[LIST_AUDIT])),
        route("/admin/v1/config/history", GET, AdminKey, Manage(configuration::history)).encoded_name(),
        route("/admin/v1/config/export", GET, AdminKey, Manage(configuration::export)).encoded_name(),
        route("/admin/v1/config/undo", POST, AdminKey, Manage(configuration::undo)).encoded_name(),
        route("/admin/v1/config/{id}", GET_PUT_PATCH_DELETE, AdminKey, Manage(configuration::entry)),
        route("/admin/v1/config/{id}/{id}", GET_PUT_PATCH_DELETE, AdminKey, Manage(configuration::entry))
            .rest_is_id(),
        route("/admin/v1/*", None, ViewerKey, NotFound),
        route("/auth/login", GET, Open, SignIn(SignInAction::Login)),
        route("/auth/callback", GET, Open, SignIn(SignInAction::Callback)),
        route("/auth/session", GET, Open, SignIn(SignInAction::Session)),
        route("/auth/logout", POST, Open, SignIn(SignInAction::Logout)),
        route("/auth/key", POST, Open, SignIn(SignInAction::Key)),
        route("/auth/link", POST, Open, SignIn(SignInAction::Link)),
        route("/auth/links", POST, Open, SignIn(SignInAction::NewLink)),
        PASSTHROUGH,
        UNKNOWN,
    ]
};

/// The route of a path, with the id in the path.
#[derive(Clone, Debug)]
pub(crate) struct RouteMatch<'a> {
    pub(crate) route: &'static Route,
    index: usize,
    /// The decoded `{id}`. None: the pattern has no id, or the id is not valid percent-encoded UTF-8.
    pub(crate) id: Option<Cow<'a, str>>,
    /// The route of the configuration.
    pub(crate) passthrough: Option<Box<PassthroughMatch>>,
}

/// Finds the route of a path. A slash at the end of the path is not significant.
pub(crate) fn find(path: &str, listener: Listener) -> RouteMatch<'_> {
    let path = match path.strip_suffix('/') {
        None | Some("" | "/") => path,
        Some(shorter) => shorter,
    };
    let found = find_row(path, listener).or_else(|| find_row(of_alias(path)?, listener));
    let last = ROUTES.len().saturating_sub(1);
    found.unwrap_or(RouteMatch { route: &UNKNOWN, index: last, id: None, passthrough: None })
}

fn find_row(path: &str, listener: Listener) -> Option<RouteMatch<'_>> {
    ROUTES.iter().enumerate().find_map(|(index, route)| {
        let id = route.matches(path)?;
        route.is_served_by(listener).then_some(RouteMatch { route, index, id, passthrough: None })
    })
}

/// The labels of the routes that call an upstream for an answer.
pub(crate) fn generation_routes() -> impl Iterator<Item = RouteLabel> {
    let routes = ROUTES.iter().enumerate();
    let generation = routes.filter(|(_, route)| {
        matches!(
            route.endpoint,
            Endpoint::Generate(Generation::Answer(_)) | Endpoint::GenerateForm(_) | Endpoint::Realtime
        )
    });
    generation.map(|(index, route)| route.label(index))
}

/// Whether the gateway itself answers this path, or one of its own pages stands there. `/v1` has room for other URLs.
#[must_use]
pub fn is_own_url(path: &str) -> bool {
    let found = find(path, Listener::Single);
    let is_api = path.starts_with("/v1/") || path == "/v1";
    match found.route.endpoint {
        Endpoint::NotFound => found.route.pattern != UNKNOWN.pattern && !is_api,
        _ => true,
    }
}

impl RouteMatch<'_> {
    /// Whether its requests are traced.
    pub(crate) fn is_traced(&self) -> bool {
        self.route.pattern.starts_with("/v1") || self.passthrough.is_some()
    }

    /// Whether a POST names a method of a model that does not exist, as in `/v1beta/models/NAME:predict`. A GET reads the model whose
    /// name has the colon.
    pub(crate) fn names_unknown_method(&self, parts: &Parts) -> bool {
        let is_model =
            self.route.matching == Matching::Rest && matches!(self.route.endpoint, Endpoint::Catalogue(_));
        is_model && parts.method == Method::POST && self.id.as_deref().is_some_and(|id| id.contains(':'))
    }

    /// Whether no endpoint answers the path.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.route.endpoint, Endpoint::NotFound) && !self.route.pattern.starts_with("/admin/")
    }

    /// The match of a route of the configuration.
    pub(crate) fn of_passthrough(matched: Box<PassthroughMatch>) -> Self {
        let index = ROUTES.iter().position(|route| route.pattern == PASSTHROUGH.pattern).unwrap_or_default();
        Self { route: &PASSTHROUGH, index, id: None, passthrough: Some(matched) }
    }

    /// The label of metrics and log lines.
    pub(crate) fn label(&self) -> RouteLabel {
        self.route.label(self.index)
    }
}

impl Route {
    /// Marks a URL whose last segment stands where ids stand, so that it may be percent-encoded as an id may.
    const fn encoded_name(self) -> Self {
        Self { matching: Matching::EncodedName, ..self }
    }

    /// Marks a URL whose last id may contain slashes, as the ids of models do.
    const fn rest_is_id(self) -> Self {
        Self { matching: Matching::Rest, ..self }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    fn label(&self, index: usize) -> RouteLabel {
        let methods = self.methods.unwrap_or("GET");
        let main_method = methods.split(',').next().unwrap_or(methods);
        RouteLabel { index, pattern: self.pattern, main_method }
    }

    fn is_api(&self) -> bool {
        self.pattern.starts_with("/v1/") || self.pattern.starts_with("/v1beta/")
    }

    fn is_served_by(&self, listener: Listener) -> bool {
        match listener {
            Listener::Single => true,
            Listener::Public => self.is_api() || matches!(self.endpoint, Endpoint::Probe(_) | Endpoint::Root),
            Listener::Admin => !self.is_api(),
        }
    }

    /// Some: the path leads to this route. The inner option is the decoded `{id}`; two of them are one text with a slash.
    fn matches<'a>(&self, path: &'a str) -> Option<Option<Cow<'a, str>>> {
        match self.matching {
            Matching::Whole => (self.pattern == path).then_some(None),
            Matching::EncodedName => {
                let (segment, name) = self.variable_part(path)?;
                (decode(segment)?.trim_end_matches('/') == name).then_some(None)
            }
            Matching::Segment => {
                let (rest, end) = self.variable_part(path)?;
                let id = rest.strip_suffix(end.strip_prefix("{id}")?)?;
                (!id.contains('/')).then(|| decode(id))
            }
            Matching::Rest => {
                let (rest, ids) = self.variable_part(path)?;
                let slashes = |text: &str| text.matches('/').count();
                (slashes(rest) >= slashes(ids)).then(|| decode(rest))
            }
            Matching::ModelMethod(method) => {
                gemini_url::split(path).filter(|(_, given)| *given == method).map(|(model, _)| Some(model))
            }
            Matching::Below => {
                let below = path.strip_prefix(self.pattern.strip_suffix("/*")?)?;
                (below.is_empty() || below.starts_with('/')).then_some(None)
            }
        }
    }

    /// The variable part of a path that begins as the pattern does, and the variable part of the pattern.
    fn variable_part<'a>(&self, path: &'a str) -> Option<(&'a str, &'static str)> {
        let (start, end) = self.pattern.split_at_checked(self.variable_part)?;
        Some((path.strip_prefix(start)?, end))
    }

    /// The audience whose web pages may read the answers.
    pub(crate) fn audience(&self) -> Audience {
        let is_own_page = matches!(self.endpoint, Endpoint::SignIn(_) | Endpoint::Console);
        let is_for_users = self.guard.required_role(&Method::GET).is_none()
            && self.pattern != UNKNOWN.pattern
            && !is_own_page;
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

    /// Whether the method asks for a WebSocket.
    pub(crate) fn is_socket(&self, method: &Method) -> bool {
        let has_sockets = self.pattern == RESPONSES || matches!(self.endpoint, Endpoint::Realtime);
        has_sockets && [Method::GET, Method::HEAD].contains(method)
    }

    /// The `Allow` header of a 405, when the route does not have this method.
    pub(crate) fn method_error(&self, method: &Method) -> Option<&'static str> {
        let methods = self.methods?;
        // Most routes have one method or two, and splitting the list takes longer than looking at its ends.
        let method = method.as_str();
        let is_first =
            methods.strip_prefix(method).is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
        let is_last = methods.strip_suffix(method).is_some_and(|rest| rest.ends_with(' '));
        if is_first || is_last {
            return None;
        }
        methods.split(", ").all(|allowed| allowed != method).then_some(methods)
    }
}

#[cfg(test)]
mod tests;
