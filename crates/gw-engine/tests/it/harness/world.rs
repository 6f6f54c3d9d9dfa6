//! The engine with scripted upstreams, a ledger, a budget, and the check of all books.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use gw_cache::Cache;
use gw_engine::engine::{Deployed, Stored};
use gw_engine::ledger_spending::NothingSpent;
use gw_engine::response_cache::{CachingSettings, ResponseCache};
use gw_engine::settings::{EngineSettings, KeySettings, ModelSettings, PricingSettings, RoutingSettings};
use gw_engine::{CallLog, Caller, ClientSurface, Engine, Error, Limiter, Reply, RequestContext, request_id};
use gw_limits::{Clock, Subject, SubjectKind};
use gw_providers::provider::Provider;
use gw_providers::settings::{Api, ProviderSettings, Timeouts};
use gw_store::journal::Journal;
use gw_store::keys::Role;
use gw_store::ledger::Entry;
use gw_store::limits::{Budget, Limits, OnBudget, Period};
use gw_wire::money::Price;
use gw_wire::operation::PlainOperation;
use gw_wire::usage::Usage;
use prometheus_client::registry::Registry;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::client::{Client, Ended};
use super::script::Script;
use super::upstream::{Calls, SeenCall, Upstream};

/// Prices per token in femto-USD of the providers in their order: of the prompt and of the answer.
const PRICES: [(u64, u64); 3] =
    [(1_000_000_000, 2_000_000_000), (3_000_000_000, 5_000_000_000), (7_000_000_000, 11_000_000_000)];
/// Tokens a minute of the test's key: one for each ten microseconds, so that a limiter's sums are exact.
const TOKENS_PER_MINUTE: u64 = 6_000_000;
/// The budget of the test's key in nano-USD: 1,000 USD.
const BUDGET_NANO: u64 = 1_000_000_000_000;
/// The name of the test's key.
const KEY: &str = "test";

/// How the engine of a test is set up.
pub(crate) struct Setup {
    pub(crate) routing: RoutingSettings,
    pub(crate) timeouts: Timeouts,
    /// The dialect of the upstreams.
    pub(crate) api: Api,
    /// The provider's name of each model; None: that of its id.
    pub(crate) upstream_model: Option<&'static str>,
    /// The features of each model; None: unknown.
    pub(crate) features: Option<Vec<String>>,
    /// Providers with the scripts of their calls. Each has a model `<provider>/m`.
    pub(crate) upstreams: Vec<(&'static str, Vec<Script>)>,
    /// API keys of each provider.
    pub(crate) keys: usize,
    /// Inputs of one embeddings call.
    pub(crate) embedding_batch: Option<usize>,
    pub(crate) budget_nano: u64,
    pub(crate) on_budget: OnBudget,
    pub(crate) has_cache: bool,
}

impl Setup {
    /// Providers with their scripts, no hedges, no retries, and the gateway's default clocks.
    pub(crate) fn new(upstreams: Vec<(&'static str, Vec<Script>)>) -> Self {
        Self {
            routing: RoutingSettings { retries: 0, ..RoutingSettings::default() },
            timeouts: Timeouts::default(),
            api: Api::OPENAI,
            upstream_model: None,
            features: None,
            upstreams,
            keys: 0,
            embedding_batch: None,
            budget_nano: BUDGET_NANO,
            on_budget: OnBudget::Finish,
            has_cache: false,
        }
    }

    /// Builds the engine.
    pub(crate) fn build(self) -> World {
        let calls = Calls::default();
        let directory = tempfile::tempdir().unwrap();
        let journal = Arc::new(Journal::open(directory.path()).unwrap());
        let limiter = Limiter::in_process_with_clock(Arc::new(Stopped), Arc::new(NothingSpent));
        let budget = Some(Budget { nano: self.budget_nano, period: Period::Total });
        let (tpm, on_budget) = (Some(TOKENS_PER_MINUTE), self.on_budget);
        let limits = Limits { tpm, budget, on_budget, ..Limits::default() };
        let names: Vec<_> = self.upstreams.iter().map(|(name, _)| *name).collect();
        let of_model = |(name, price): (&&str, (u64, u64))| ModelSettings {
            upstream_model: self.upstream_model.map(str::to_owned),
            features: self.features.clone(),
            ..model(name, price)
        };
        let settings = EngineSettings {
            routing: self.routing,
            models: names.iter().zip(PRICES).map(of_model).collect(),
            keys: vec![key(limits)],
            ..EngineSettings::default()
        };
        let deployed = self.upstreams.into_iter().map(|(name, scripts)| {
            let settings =
                ProviderSettings { api: self.api, ..provider(name, self.keys, self.embedding_batch) };
            let upstream = Upstream::new(name, scripts, &calls);
            let provider = Provider::in_process(&settings, self.timeouts, upstream).unwrap();
            Deployed { provider: provider.into(), price_multiplier: one(), discovers: false }
        });
        let caching = self.has_cache.then(|| Arc::new(cache()));
        let stored = Stored {
            journal: Some(Arc::clone(&journal)),
            limiter: limiter.clone(),
            caching,
            ..Stored::default()
        };
        let mut registry = Registry::default();
        let engine = Engine::new(settings, deployed.collect(), Vec::new(), stored, &mut registry).unwrap();
        let caller = engine.identify([&b"Bearer sk-test"[..]].into_iter(), std::iter::empty()).unwrap();
        let subject = limiter.subject(SubjectKind::Key, caller.key_id(), limits);
        let budget_femtos = i128::from(self.budget_nano) * 1_000_000;
        World {
            engine,
            calls,
            names,
            limiter,
            subject,
            budget_femtos,
            caller,
            registry,
            directory,
            logs: Mutex::default(),
        }
    }
}

fn one() -> Price {
    Price::parse("1").unwrap()
}

fn model(provider: &str, (input, output): (u64, u64)) -> ModelSettings {
    ModelSettings {
        id: format!("{provider}/m"),
        context_length: Some(100_000),
        max_output_tokens: Some(1_000),
        pricing: PricingSettings {
            official_input_per_m: Some(Price::from_nanos(input)),
            official_output_per_m: Some(Price::from_nanos(output)),
            ..PricingSettings::default()
        },
        ..ModelSettings::default()
    }
}

fn key(limits: Limits) -> KeySettings {
    KeySettings {
        name: KEY.to_owned(),
        key: SecretString::from("sk-test"),
        role: Role::Inference,
        models: None,
        limits,
        log_payloads: false,
        trust_attribution: false,
        expires_at: None,
    }
}

fn provider(name: &str, keys: usize, embedding_batch: Option<usize>) -> ProviderSettings {
    let key = |number: usize| (SecretString::from(format!("upstream-key-{number}")), 1);
    ProviderSettings {
        api_keys: (1..=keys).map(key).collect(),
        embedding_batch,
        allow_private_network: false,
        ..ProviderSettings::plain(name, Api::OPENAI)
    }
}

fn cache() -> ResponseCache {
    let settings = CachingSettings {
        default_ttl: Duration::from_secs(3600),
        stale_if_error: Duration::ZERO,
        completions: false,
        embeddings: false,
        shared_by_teams: Vec::new(),
    };
    ResponseCache::new(Cache::in_process(1 << 20), settings, Vec::new())
}

/// A clock of limits that stands still: nothing comes back by itself.
#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn monotonic_micros(&self) -> f64 {
        1e9
    }

    fn unix_seconds(&self) -> i64 {
        1_790_000_000
    }
}

/// The engine of a test, and all that it writes to.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) calls: Calls,
    names: Vec<&'static str>,
    limiter: Limiter,
    subject: Arc<Subject>,
    budget_femtos: i128,
    caller: Caller,
    registry: Registry,
    directory: tempfile::TempDir,
    logs: Mutex<Vec<Arc<CallLog>>>,
}

impl World {
    /// A chat request of the first provider's model, with those of the others as its fallbacks.
    pub(crate) fn chat(&self, stream: bool) -> Value {
        let models: Vec<_> = self.names.iter().map(|name| format!("{name}/m")).collect();
        let (first, others) = models.split_first().unwrap();
        json!({
            "model": first, "stream": stream, "routing": {"fallback": others},
            "messages": [{"role": "user", "content": "Tell me about the sea."}],
        })
    }

    /// Sends a chat request and reads its answer.
    pub(crate) async fn run(&self, body: &Value, client: &Client) -> Ended {
        client.read(self.send(body, None)).await
    }

    /// Sends a chat request and reads its answer to the end, then waits until nothing is under way any more.
    pub(crate) async fn ask(&self, body: &Value) -> Ended {
        let ended = self.run(body, &Client::default()).await;
        self.settled().await;
        ended
    }

    /// The answer of a request of the Messages API, or of the Responses API if the body has an `input`.
    pub(crate) fn send_native(&self, body: &Value) -> impl Future<Output = Result<Reply, Error>> + use<> {
        let (engine, context) = (Arc::clone(&self.engine), self.context(None));
        let (bytes, is_message) = (Bytes::from(body.to_string()), body["input"].is_null());
        async move {
            match is_message {
                true => engine.messages(context, bytes).await,
                false => engine.responses(context, bytes).await,
            }
        }
    }

    /// The answer of a chat request, or of an embeddings request if the body has an `input`.
    pub(crate) fn send(
        &self,
        body: &Value,
        keepalive: Option<Duration>,
    ) -> impl Future<Output = Result<Reply, Error>> + use<> {
        let (engine, context) = (Arc::clone(&self.engine), self.context(keepalive));
        let (bytes, is_chat) = (Bytes::from(body.to_string()), body["input"].is_null());
        async move {
            let operation = if is_chat { PlainOperation::Chat } else { PlainOperation::Embeddings };
            engine.generate(operation, context, bytes).await
        }
    }

    /// The facts that the HTTP server gives the engine beside a body.
    pub(crate) fn context(&self, keepalive: Option<Duration>) -> Box<RequestContext> {
        let log = Arc::<CallLog>::default();
        self.logs.lock().unwrap().push(Arc::clone(&log));
        Box::new(RequestContext {
            request_id: request_id::generate(),
            caller: self.caller.clone(),
            accepted: tokio::time::Instant::now().into_std(),
            log,
            client: None,
            session: None,
            attribution: None,
            warnings: Vec::new(),
            rules: None,
            max_cost: None,
            preset: None,
            matched_headers: Vec::new(),
            dry_run: None,
            cache_control: None,
            keepalive,
            surface: ClientSurface::default(),
            trace: None,
        })
    }

    /// Waits longer than anything may go on.
    pub(crate) async fn settled(&self) {
        tokio::time::sleep(Duration::from_secs(2_000)).await;
    }

    /// The calls that the upstreams saw.
    pub(crate) fn seen(&self) -> Vec<SeenCall> {
        self.calls.lock().unwrap().clone()
    }

    /// The providers that were called, in order.
    pub(crate) fn called(&self) -> Vec<&'static str> {
        self.seen().iter().map(|call| call.provider).collect()
    }

    /// The cost of a usage at a provider, in femto-USD.
    pub(crate) fn price(&self, provider: &str, usage: &Usage) -> i128 {
        let index = self.names.iter().position(|name| *name == provider).unwrap();
        let (input, output) = PRICES[index];
        i128::from(usage.prompt * input) + i128::from(usage.completion * output)
    }

    /// The lines of the journal with their letters, in the order in which they were written.
    pub(crate) fn journal(&self) -> Vec<(char, Entry)> {
        let mut lines = Vec::new();
        for file in std::fs::read_dir(self.directory.path()).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for line in text.lines().filter(|line| !line.is_empty()) {
                let (kind, json) = line.split_at(1);
                lines.push((kind.chars().next().unwrap(), Entry::from_line(json).unwrap()));
            }
        }
        lines
    }

    /// The ledger's rows.
    pub(crate) fn rows(&self) -> Vec<Entry> {
        let ended = self.journal().into_iter().filter(|(kind, _)| *kind == 'E');
        ended.map(|(_, entry)| entry).collect()
    }

    /// The only row of the ledger.
    #[track_caller]
    pub(crate) fn row(&self) -> Entry {
        let mut rows = self.rows();
        assert_eq!(rows.len(), 1, "rows: {rows:#?}");
        rows.remove(0)
    }

    /// Checks all books after one request: the money, and the calls ([`World::check_money`], [`World::check_calls`]).
    pub(crate) async fn check(&self) {
        self.check_money(1).await;
        self.check_calls();
    }

    /// Checks that the rows tell of each call that an upstream saw, where no request was divided.
    pub(crate) fn check_calls(&self) {
        let (rows, mut seen) = (self.rows(), self.called());
        let attempts = || rows.iter().flat_map(|row| &row.attempts);
        let mut told: Vec<_> = attempts().map(|attempt| &*attempt.provider).collect();
        told.sort_unstable();
        seen.sort_unstable();
        assert_eq!(told, seen, "attempts of the rows, against the calls that were seen: {rows:#?}");
        let cost: i128 = attempts().filter_map(|attempt| attempt.cost).sum();
        assert_eq!(cost, rows.iter().map(|row| row.cost).sum(), "{rows:#?}");
    }

    /// Checks the money of so many requests: a row for each, and the cost of all calls that the upstreams saw in the rows, the
    /// budget, the limiter, the access log and the metrics. Nothing is set aside any more, and no call is held.
    pub(crate) async fn check_money(&self, requests: usize) {
        let (rows, seen) = (self.rows(), self.seen());
        let billed: Vec<_> = seen.iter().filter_map(|call| Some((call.provider, call.billed()?))).collect();
        let cost: i128 = billed.iter().map(|(provider, usage)| self.price(provider, usage)).sum();
        let tokens: u64 = billed.iter().map(|(_, usage)| usage.total()).sum();
        assert_eq!(rows.len(), requests, "{rows:#?}");
        let told: i128 = rows.iter().map(|row| row.cost).sum();
        assert_eq!(
            told, cost,
            "the rows' cost, against the calls that were seen: {billed:?}\n{rows:#?}\n{seen:#?}"
        );
        self.check_totals(cost, tokens).await;
        let mut logs: Vec<_> = self.logs.lock().unwrap().iter().map(|log| log.record()).collect();
        logs.retain(|log| log.status.is_some());
        assert_eq!(logs.iter().map(|log| log.cost.femtos()).sum::<i128>(), cost, "the access log: {logs:?}");
        let statuses = |mut all: Vec<String>| {
            all.sort();
            all
        };
        assert_eq!(
            statuses(logs.iter().map(|log| log.status.unwrap().to_owned()).collect()),
            statuses(rows.iter().map(|row| row.status.clone().into_owned()).collect()),
            "the access log, against the rows"
        );
        assert!(seen.iter().all(|call| call.is_dropped), "a call is still held: {seen:#?}");
    }

    /// Checks that so much was spent in all, that nothing is set aside any more, and that each row was counted once.
    pub(crate) async fn check_totals(&self, cost: i128, tokens: u64) {
        let subjects = [Arc::clone(&self.subject)];
        let (left, tokens_left) = (self.budget_femtos - cost, TOKENS_PER_MINUTE - tokens);
        // A budget that was crossed refuses everything.
        let all = if left >= 0 {
            let all = self.limiter.reserve("all", &subjects, tokens_left, left).await;
            let wrong = format!("more is spent or set aside than {cost} femto-USD and {tokens} tokens");
            Some(all.unwrap_or_else(|refusal| panic!("{wrong}: {refusal:?}")))
        } else {
            None
        };
        let more = self.limiter.reserve("more", &subjects, 0, 1).await;
        assert!(more.is_err(), "less money is spent than {cost} femto-USD");
        let more = self.limiter.reserve("more", &subjects, 1, 0).await;
        assert!(more.is_err(), "fewer tokens are spent than {tokens}");
        drop(all);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let sum = |name: &str| -> f64 {
            let samples = text.lines().filter(|line| line.starts_with(name));
            samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
        };
        assert_eq!(sum("gateway_calls_total"), self.rows().len() as f64, "{text}");
        let usd = sum("gateway_cost_usd_total");
        assert!((usd * 1e15 - cost as f64).abs() < 1e6, "metrics tell {usd} USD, the rows {cost} femto-USD");
    }
}
