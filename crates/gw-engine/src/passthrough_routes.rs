//! The pass-through routes of a configuration: which URLs lead to which upstream.

use std::sync::Arc;

use gw_providers::provider::Provider;
use gw_providers::settings::{Api, ProviderSettings, TimeoutOverrides, Timeouts};
use gw_providers::usage_scan::UsageShape;
use gw_wire::money::{Price, UnitPrice};
use gw_wire::usage::Unit;
use http::{HeaderName, Method};

use crate::catalog::Model;
use crate::catalog::prices::{Prices, Rates, UnitPrices};
use crate::settings::{CredentialMode, PassthroughSettings};

/// The beginning of the names of models that stand for routes, and the provider of routes with a target.
const NAME: &str = "passthrough";

/// One route.
#[derive(Debug)]
pub struct PassthroughRoute {
    /// The beginning of its URLs.
    pub path: String,
    /// The methods; empty: all.
    pub methods: Vec<Method>,
    /// The credential that the upstream gets.
    pub credential: CredentialMode,
    /// Further headers that go upstream.
    pub forward_headers: Vec<HeaderName>,
    /// The shape in which answers report their tokens.
    pub(crate) usage: Option<UsageShape>,
    pub(crate) provider: Arc<Provider>,
    /// The provider is a target of this route, which has no models.
    pub(crate) is_target: bool,
    pub(crate) timeouts: TimeoutOverrides,
    /// Stands for the requests that name no known model.
    pub(crate) model: Arc<Model>,
    /// Has the prices of the route.
    pub(crate) priced: Option<Arc<Model>>,
    /// Has the cost of each request as its fee.
    pub(crate) flat: Option<Arc<Model>>,
}

/// The routes, those with the longest paths first.
#[derive(Debug, Default)]
pub struct PassthroughRoutes(Vec<Arc<PassthroughRoute>>);

/// The route of a URL.
#[derive(Clone, Debug)]
pub struct PassthroughMatch {
    /// The route.
    pub route: Arc<PassthroughRoute>,
    /// The methods of all routes with its path, if it does not have that of the request.
    pub refused_methods: Option<String>,
}

impl PassthroughRoute {
    /// Whether the route has this method.
    fn has(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }

    /// Whether the path is that of the route, or below it.
    fn leads(&self, path: &str) -> bool {
        path.strip_prefix(&*self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether the upstream gets the operator's credential.
    #[must_use]
    pub fn injects(&self) -> bool {
        self.credential == CredentialMode::Inject
    }

    /// Whether the upstream reads a credential from the parameter `key`, as Google does.
    #[must_use]
    pub fn takes_key_in_query(&self) -> bool {
        self.provider.takes_key_in_query()
    }

    /// Whether the body of a request must be there before the request is sent.
    #[must_use]
    pub fn needs_whole_body(&self) -> bool {
        self.provider.needs_whole_body(self.injects())
    }

    /// Whether tokens are read from the answers, so that the model of a request matters.
    #[must_use]
    pub fn reads_usage(&self) -> bool {
        self.usage.is_some()
    }
}

impl PassthroughRoutes {
    /// Whether there is no route.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Builds the routes. `provider` gives a configured provider with the factor from official prices to its own.
    ///
    /// # Errors
    /// Every problem.
    pub(crate) fn build(
        all: &[PassthroughSettings],
        provider: impl Fn(&str) -> Option<(Arc<Provider>, Price)>,
    ) -> Result<Self, Vec<String>> {
        let (mut routes, mut problems) = (Vec::with_capacity(all.len()), Vec::new());
        for settings in all {
            match route(settings, &provider) {
                Ok(route) => routes.push(Arc::new(route)),
                Err(problem) => problems.push(format!("passthrough '{}': {problem}", settings.path)),
            }
        }
        // The order of the configuration stays among paths of one length.
        routes.sort_by_key(|route| std::cmp::Reverse(route.path.len()));
        if problems.is_empty() { Ok(Self(routes)) } else { Err(problems) }
    }

    /// The route of a path, which is not decoded.
    #[must_use]
    pub fn find(&self, path: &str, method: &Method) -> Option<PassthroughMatch> {
        let first = self.0.iter().find(|route| route.leads(path))?;
        let mut equals = self.0.iter().filter(|route| route.path == first.path);
        if let Some(route) = equals.clone().find(|route| route.has(method)) {
            return Some(PassthroughMatch { route: Arc::clone(route), refused_methods: None });
        }
        let mut methods: Vec<&str> =
            equals.by_ref().flat_map(|route| &route.methods).map(Method::as_str).collect();
        methods.push("OPTIONS");
        Some(PassthroughMatch { route: Arc::clone(first), refused_methods: Some(methods.join(", ")) })
    }
}

fn route(
    settings: &PassthroughSettings,
    provider: impl Fn(&str) -> Option<(Arc<Provider>, Price)>,
) -> Result<PassthroughRoute, String> {
    let one = Price::from_nanos(1_000_000_000);
    let (provider, multiplier) = match (&settings.target, &settings.provider) {
        (Some(target), _) => (Arc::new(of_target(settings, target)?), one),
        (None, Some(name)) => provider(name).ok_or_else(|| format!("there is no provider '{name}'"))?,
        (None, None) => return Err("it has no upstream".to_owned()),
    };
    let prices = settings.pricing.as_ref().map(|pricing| Prices::of_settings(pricing, multiplier));
    let fee = settings.cost_per_request.map(fee);
    let model =
        |prices| Arc::new(Model::stand_in(&format!("{NAME}{}", settings.path), provider.name(), prices));
    Ok(PassthroughRoute {
        path: settings.path.clone(),
        methods: settings.methods.iter().filter_map(|name| name.parse().ok()).collect(),
        credential: settings.credential,
        forward_headers: settings.forward_headers.iter().filter_map(|name| name.parse().ok()).collect(),
        usage: settings.usage,
        is_target: settings.target.is_some(),
        timeouts: settings.timeouts,
        model: model(None),
        priced: prices.transpose()?.flatten().map(|prices| model(Some(prices))),
        flat: fee.map(|fee| model(Some(fee))),
        provider,
    })
}

/// The upstream of a route with a target. The route has all timeouts.
fn of_target(settings: &PassthroughSettings, target: &str) -> Result<Provider, String> {
    let provider = ProviderSettings {
        base_url: Some(target.to_owned()),
        headers: settings.headers.clone(),
        timeouts: settings.timeouts,
        allow_private_network: settings.allow_private_network,
        allow_plain_http: settings.allow_plain_http,
        ..ProviderSettings::plain(NAME, Api::OPENAI)
    };
    Provider::build(&provider, Timeouts::default()).map_err(|problem| problem.to_string())
}

/// Prices of nothing but requests.
fn fee(cost: UnitPrice) -> Prices {
    let free = Some(Price::default());
    let rates = Rates {
        input: free,
        output: free,
        audio_input: free,
        audio_output: free,
        image_output: free,
        ..Rates::default()
    };
    let mut units = UnitPrices::default();
    units.set(Unit::Query, cost);
    Prices {
        official: rates,
        gateway: rates,
        official_units: units,
        units,
        currency: "USD".into(),
        ..Prices::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(all: &[(&str, &[&str])]) -> PassthroughRoutes {
        let settings = |(path, methods): &(&str, &[&str])| PassthroughSettings {
            path: (*path).to_owned(),
            target: Some("http://127.0.0.1:1".to_owned()),
            methods: methods.iter().map(ToString::to_string).collect(),
            ..PassthroughSettings::default()
        };
        let all: Vec<_> = all.iter().map(settings).collect();
        PassthroughRoutes::build(&all, |_| None).unwrap()
    }

    #[test]
    fn the_longest_path_at_a_border_of_segments_counts() {
        let routes = routes(&[("/a", &[]), ("/a/b", &["GET"]), ("/a/b", &["POST"])]);
        for (path, method, found) in [
            ("/a", Method::GET, Some("/a")),
            ("/a/", Method::GET, Some("/a")),
            ("/ab", Method::GET, None),
            ("/a/bc", Method::GET, Some("/a")),
            ("/a/b/c", Method::POST, Some("/a/b")),
            ("/A", Method::GET, None),
            ("/%61", Method::GET, None),
            ("/", Method::GET, None),
        ] {
            let matched = routes.find(path, &method);
            assert_eq!(matched.as_ref().map(|it| &*it.route.path), found, "{path}");
            assert!(matched.is_none_or(|it| it.refused_methods.is_none()));
        }
        let refused = routes.find("/a/b/c", &Method::PUT).unwrap();
        assert_eq!(refused.refused_methods.as_deref(), Some("GET, POST, OPTIONS"));
    }

    #[test]
    fn a_fee_is_charged_whatever_the_tokens_are() {
        let prices = fee(UnitPrice::parse("0.0125").unwrap());
        for tokens in [0, 1_000_000] {
            let usage = gw_wire::usage::Usage { prompt: tokens, completion: tokens, ..Default::default() };
            assert_eq!(prices.cost(&usage).map(|cost| cost.to_string()), Some("0.0125".to_owned()));
        }
    }
}
