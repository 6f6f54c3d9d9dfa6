//! A gateway without providers on a free port, and a client that sees every byte.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gw_admin::{
    ConfigurationSource, ConfigurationState, Diagnostics, DiagnosticsFuture, DiagnosticsService,
    DrillRequest, LiveAdminService, LiveConfiguration, ProbeRequest, ReloadFuture, SignIn,
};
use gw_engine::Engine;
use gw_engine::engine::Stored;
use gw_engine::error::Error;
use gw_engine::settings::{EngineSettings, KeySettings, Limits, Role};
use gw_server::settings::ServerSettings;
use gw_server::{AccessLog, Listeners, LogLine, OperatorServices, ServerState, Shutdown};
use gw_store::Store;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The header of the key of role inference.
pub(crate) const KEY: &str = "authorization: Bearer sk-user";
/// The header of the key of role admin.
pub(crate) const ADMIN: &str = "authorization: Bearer sk-root";
/// The header of a key with one request per minute.
pub(crate) const RATED: &str = "authorization: Bearer sk-rated";

struct Lines(UnboundedSender<String>);

/// A configuration that cannot be read again.
#[derive(Debug)]
struct NoSource;

impl ConfigurationSource for NoSource {
    fn state(&self) -> ConfigurationState {
        ConfigurationState::default()
    }

    fn reload(&self) -> ReloadFuture<'_> {
        Box::pin(async { Err(vec!["there is no file".to_owned()]) })
    }
}

impl AccessLog for Lines {
    fn write(&self, line: &LogLine<'_>) {
        let _ = self.0.send(String::from_utf8_lossy(&line.to_json()).trim_end().to_owned());
    }
}

/// A gateway without drills and probes.
#[derive(Debug)]
struct NoDiagnostics;

impl DiagnosticsService for NoDiagnostics {
    fn drill(&self, _: DrillRequest) -> DiagnosticsFuture {
        Box::pin(async { Err(Error::internal()) })
    }

    fn probe(&self, _: ProbeRequest) -> DiagnosticsFuture {
        Box::pin(async { Err(Error::internal()) })
    }
}

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) public: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) state: Arc<ServerState>,
    pub(crate) shutdown: Shutdown,
    pub(crate) lines: UnboundedReceiver<String>,
    pub(crate) serving: JoinHandle<io::Result<()>>,
}

fn keys() -> Vec<KeySettings> {
    let key = |name: &str, key: &str, role, rpm| KeySettings {
        name: name.to_owned(),
        key: key.into(),
        role,
        models: None,
        limits: Limits { rpm, ..Limits::default() },
        log_payloads: false,
        trust_attribution: false,
        expires_at: None,
    };
    vec![
        key("user", "sk-user", Role::Inference, None),
        key("root", "sk-root", Role::Admin, None),
        key("rated", "sk-rated", Role::Inference, Some(1)),
    ]
}

impl Gateway {
    /// Starts with short timeouts.
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts with changed settings.
    pub(crate) async fn with(change: impl FnOnce(&mut ServerSettings)) -> Self {
        Self::with_workers(2, change).await
    }

    /// Starts with this many workers and changed settings.
    pub(crate) async fn with_workers(workers: usize, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let mut settings = ServerSettings {
            body_limit: 256 << 10,
            head_timeout: Duration::from_secs(2),
            body_timeout: Duration::from_millis(300),
            drain: Duration::from_secs(5),
            ..ServerSettings::default()
        };
        change(&mut settings);
        let mut registry = Registry::default();
        let engine = EngineSettings { keys: keys(), ..EngineSettings::default() };
        let engine = Engine::new(engine, Vec::new(), Vec::new(), Stored::default(), &mut registry).unwrap();
        let store = Store::in_memory().await.unwrap();
        let management =
            LiveAdminService::new(store.clone(), Arc::clone(&engine), tokio::runtime::Handle::current());
        let sign_in = Arc::new(SignIn::new(Arc::clone(&management), Arc::clone(&engine), store, None));
        let (sender, lines) = unbounded_channel();
        let public = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = match &settings.admin_listen {
            Some(address) => Some(TcpListener::bind(address).await.unwrap()),
            None => None,
        };
        let addresses =
            (public.local_addr().unwrap(), admin.as_ref().map(|admin| admin.local_addr().unwrap()));
        let runtime = tokio::runtime::Handle::current();
        let configuration = LiveConfiguration::new(Arc::clone(&engine), Arc::new(NoSource), runtime);
        let state = ServerState::new(
            settings,
            engine,
            OperatorServices {
                management,
                configuration,
                diagnostics: Diagnostics::new(Arc::new(NoDiagnostics)),
                sign_in,
                console: &[],
            },
            Arc::new(Lines(sender)),
            Box::new(|| Ok(())),
            None,
            registry,
        )
        .unwrap();
        let shutdown = Shutdown::new();
        let listeners = Listeners { public, admin };
        let serving =
            tokio::spawn(gw_server::serve(Arc::clone(&state), listeners, workers, shutdown.clone()));
        Self { public: addresses.0, admin: addresses.1, state, shutdown, lines, serving }
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request_line: &str, headers: &[&str], body: &str) -> Answer {
        let mut client = Client::connect(self.public).await;
        client.ask(request_line, headers, body).await
    }

    /// The next log line.
    pub(crate) async fn line(&mut self) -> serde_json::Value {
        let line = tokio::time::timeout(Duration::from_secs(10), self.lines.recv()).await;
        serde_json::from_str(&line.expect("a line is written").expect("the gateway runs")).unwrap()
    }
}

/// A connection of a client.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    heard: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `code` of the error body, which must have exactly its three members.
    pub(crate) fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).expect("JSON");
        let error = body["error"].as_object().expect("an error");
        assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{}", self.body);
        let members: Vec<_> = error.keys().map(String::as_str).collect();
        assert_eq!(members.len(), 3, "{}", self.body);
        assert!(members.iter().all(|name| ["message", "type", "code"].contains(name)), "{}", self.body);
        error["code"].as_str().expect("a string").to_owned()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), heard: Vec::new() }
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// A whole request with its length, and its answer.
    pub(crate) async fn ask(&mut self, request_line: &str, headers: &[&str], body: &str) -> Answer {
        let mut request = format!("{request_line} HTTP/1.1\r\nhost: gateway\r\n");
        for header in headers {
            request.push_str(&format!("{header}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        self.say(&format!("{request}\r\n{body}")).await;
        self.answer(request_line.starts_with("HEAD ")).await
    }

    /// The next answer; its body ends at its length.
    pub(crate) async fn answer(&mut self, is_head: bool) -> Answer {
        let read = async {
            let end = loop {
                if let Some(at) = self.heard.windows(4).position(|four| four == b"\r\n\r\n") {
                    break at + 4;
                }
                assert!(
                    self.more().await > 0,
                    "closed before an answer: {:?}",
                    String::from_utf8_lossy(&self.heard)
                );
            };
            let head: Vec<u8> = self.heard.drain(..end).collect();
            let head = String::from_utf8(head).unwrap();
            let mut lines = head.lines();
            let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value);
            let length = if is_head { 0 } else { length.map_or(0, |value| value.parse().unwrap()) };
            while self.heard.len() < length {
                assert!(self.more().await > 0, "closed inside an answer");
            }
            let body: Vec<u8> = self.heard.drain(..length).collect();
            Answer { status, headers, body: String::from_utf8(body).unwrap() }
        };
        tokio::time::timeout(Duration::from_secs(10), read).await.expect("an answer comes")
    }

    async fn more(&mut self) -> usize {
        self.stream.read_buf(&mut self.heard).await.unwrap_or(0)
    }

    /// Whether the server closes, without another word.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let read = tokio::time::timeout(Duration::from_secs(10), self.more()).await;
        read.is_ok_and(|count| count == 0) && self.heard.is_empty()
    }
}
