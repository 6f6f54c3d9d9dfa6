//! A scripted upstream: a raw HTTP/1.1 server that records every request and plays the test's answers.

mod answer;
mod connection;
mod defaults;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::certificate::Certificate;
use crate::wait::{eventually, within};

pub use answer::{Answer, Signal, Step};
pub use defaults::{PIXEL, chat_body, chat_transcript, default_answer, sse_data};

/// A request as it arrived.
#[derive(Debug)]
pub struct Recorded {
    /// GET, POST, …
    pub method: String,
    /// The request target as sent.
    pub path: String,
    /// Header lines in order.
    pub headers: Vec<(String, String)>,
    /// The body without the chunked coding.
    pub body: Vec<u8>,
    /// The time at which the request was complete.
    pub at: Instant,
    /// The number of its connection, counted from 0.
    pub connection: usize,
    closed: watch::Sender<Option<Instant>>,
}

impl Recorded {
    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the gateway sends JSON")
    }

    /// The time at which the gateway closed the connection of this request, if it has.
    #[must_use]
    pub fn closed_at(&self) -> Option<Instant> {
        *self.closed.borrow()
    }

    /// Waits until the gateway has closed the connection of this request.
    pub async fn until_closed(&self) -> Instant {
        let mut closed = self.closed.subscribe();
        let at =
            within("the gateway closes its connection to the upstream", closed.wait_for(Option::is_some))
                .await;
        at.ok().and_then(|at| *at).expect("the record lives")
    }

    pub(crate) fn mark_closed(&self) {
        self.closed.send_if_modified(|at| at.is_none() && at.replace(Instant::now()).is_none());
    }
}

type Handler = Arc<dyn Fn(&Recorded) -> Answer + Send + Sync>;

#[derive(Default)]
struct Script {
    queue: VecDeque<Answer>,
    handler: Option<Handler>,
    requests: Vec<Arc<Recorded>>,
}

struct Shared {
    script: Mutex<Script>,
    connections: AtomicUsize,
}

impl Shared {
    fn answer_to(&self, request: &Arc<Recorded>) -> Answer {
        let handler = {
            let mut script = self.script.lock().unwrap();
            script.requests.push(Arc::clone(request));
            if let Some(answer) = script.queue.pop_front() {
                return answer;
            }
            script.handler.clone()
        };
        handler.map_or_else(|| default_answer(request), |handler| handler(request))
    }
}

/// The server. Stops when dropped.
pub struct FakeUpstream {
    /// The address on which it listens.
    pub addr: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl std::fmt::Debug for FakeUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeUpstream")
            .field("addr", &self.addr)
            .field("hits", &self.hits())
            .finish_non_exhaustive()
    }
}

/// The address of an upstream that refuses connections. No other program gets its port.
#[derive(Debug)]
pub struct ClosedUpstream {
    socket: TcpSocket,
    /// The address.
    pub addr: SocketAddr,
}

impl ClosedUpstream {
    /// A free port of this machine.
    #[must_use]
    pub fn bind() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let addr = socket.local_addr().expect("a bound socket has an address");
        Self { socket, addr }
    }

    /// The upstream, which takes connections from now on.
    #[must_use]
    pub fn open(self) -> FakeUpstream {
        FakeUpstream::serve(self.socket.listen(1024).expect("the port is ours"), None)
    }
}

impl FakeUpstream {
    /// Listens on a free port of 127.0.0.1 and gives default answers until a test sets others.
    pub async fn start() -> Self {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// As [`FakeUpstream::start`], over TLS with this certificate. A failed handshake counts as a connection, never as a request.
    pub async fn start_tls(certificate: &Certificate) -> Self {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), Some(certificate.acceptor())).await
    }

    async fn listen(addr: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        Self::serve(TcpListener::bind(addr).await.expect("a free port"), tls)
    }

    fn serve(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let addr = listener.local_addr().expect("a bound socket has an address");
        let shared =
            Arc::new(Shared { script: Mutex::new(Script::default()), connections: AtomicUsize::new(0) });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let accepting = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                let mut open = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let index = shared.connections.fetch_add(1, Ordering::SeqCst);
                    let (shared, tls) = (Arc::clone(&shared), tls.clone());
                    open.spawn(async move {
                        match tls {
                            None => connection::serve(stream, index, &shared).await,
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(stream).await {
                                    connection::serve(stream, index, &shared).await;
                                }
                            }
                        }
                    });
                }
            }
        });
        Self { addr, scheme, shared, accepting }
    }

    /// `http://127.0.0.1:PORT/v1`, or `https`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("{}://{}/v1", self.scheme, self.addr)
    }

    /// Queues this answer for one request.
    pub fn enqueue(&self, answer: Answer) {
        self.shared.script.lock().unwrap().queue.push_back(answer);
    }

    /// Every request (after the queue is used up) gets this answer.
    pub fn always(&self, answer: Answer) {
        self.respond_with(move |_| answer.clone());
    }

    /// Every request (after the queue is used up) gets the answer that `handler` makes for it.
    pub fn respond_with(&self, handler: impl Fn(&Recorded) -> Answer + Send + Sync + 'static) {
        self.shared.script.lock().unwrap().handler = Some(Arc::new(handler));
    }

    /// The answer that a request like this one gets after the queue is used up.
    #[must_use]
    pub fn usual_answer(&self, request: &Recorded) -> Answer {
        let handler = self.shared.script.lock().unwrap().handler.clone();
        handler.map_or_else(|| default_answer(request), |handler| handler(request))
    }

    /// Every request so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Recorded>> {
        self.shared.script.lock().unwrap().requests.clone()
    }

    /// Drops the requests so far, so that a long run needs no memory for them. The next one has number 0.
    pub fn forget_requests(&self) {
        self.shared.script.lock().unwrap().requests.clear();
    }

    /// The number of requests so far.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.shared.script.lock().unwrap().requests.len()
    }

    /// The number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits for the request number `index` (from 0).
    pub async fn request(&self, index: usize) -> Arc<Recorded> {
        eventually(&format!("upstream request {index}"), || self.requests().get(index).cloned()).await
    }

    /// The newest request.
    #[must_use]
    pub fn last(&self) -> Arc<Recorded> {
        self.requests().last().cloned().expect("the upstream was called")
    }
}

impl Drop for FakeUpstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An address of 127.0.0.1 without a listener.
pub async fn refused_address() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    listener.local_addr().expect("a bound socket has an address")
}

/// The default pause of [`Step::Endless`].
pub const DRIP: Duration = Duration::from_millis(20);
