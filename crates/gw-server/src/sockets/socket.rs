//! An open WebSocket: its turns, one after another, and the signs of life between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use gw_engine::cpu_pool::CpuPool;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

use super::closing::{Ending, close};
use super::earlier_turns::EarlierTurns;
use super::message_meter::{MessageMeter, MeteredIo};
use super::sending::send_message;
use super::turn::{Turn, WaitingTurn};
use crate::origin::{Origin, Respond};
use crate::takeover::RawIo;

/// The most messages that wait for the turn in progress. The socket is not read while so many wait.
const MAX_WAITING: usize = 4;
/// The time between two pings. Proxies close connections that are silent for longer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A client from which nothing has come for so many pings is gone.
const MAX_UNANSWERED_PINGS: u32 = 3;
/// A socket without a message needs no larger buffer.
const READ_BUFFER_BYTES: usize = 4 << 10;

/// The facts of a socket that all its turns share.
pub(super) struct Socket {
    pub(super) origin: Origin,
    pub(super) respond: Respond,
    /// The headers of each turn.
    pub(super) headers: HeaderMap,
    pub(super) key_id: Arc<str>,
    pub(super) cpu: CpuPool,
}

/// The next event of a socket.
enum Step {
    Event(Option<String>),
    Message(Option<Result<Message, tokio_tungstenite::tungstenite::Error>>),
    Tick,
    Leave,
}

/// The state of an open socket.
struct OpenSocket {
    facts: Socket,
    meter: MessageMeter,
    earlier: Arc<Mutex<EarlierTurns>>,
    turn: Option<Turn>,
    waiting: VecDeque<WaitingTurn>,
    /// The last message, or the end of the last turn.
    last_turn: Instant,
    next_ping: Instant,
    unanswered_pings: u32,
}

impl Socket {
    /// Serves the socket to its end.
    pub(super) async fn serve(self, io: Box<dyn RawIo>, drain: CancellationToken) {
        let state = Arc::clone(&self.origin.state);
        let most_bytes = state.settings.body_limit;
        let holding = || state.sockets.holding(&self.key_id);
        let meter = MessageMeter::new(holding());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(most_bytes))
            .max_frame_size(Some(most_bytes));
        let io = MeteredIo::new(io, meter.clone(), most_bytes);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let earlier = Arc::new(Mutex::new(EarlierTurns::new(most_bytes as u64, holding())));
        let now = Instant::now();
        let mut open = OpenSocket {
            facts: self,
            meter,
            earlier,
            turn: None,
            waiting: VecDeque::new(),
            last_turn: now,
            next_ping: now + PING_INTERVAL,
            unanswered_pings: 0,
        };
        let ending = open.run(&mut socket, &drain).await;
        // The request of a turn ends before the socket does.
        drop(open);
        close(&mut socket, ending).await;
    }
}

impl OpenSocket {
    async fn run<T>(&mut self, socket: &mut WebSocketStream<T>, drain: &CancellationToken) -> Ending
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        loop {
            if self.turn.is_none() && drain.is_cancelled() {
                return Ending::GoingAway;
            }
            if self.turn.is_none()
                && let Some(next) = self.waiting.pop_front()
            {
                self.turn = Some(self.begin(next));
            }
            let ending = match self.step(socket, drain).await {
                Step::Event(Some(event)) => self.send(socket, Message::text(event)).await.err(),
                Step::Event(None) => {
                    (self.turn, self.last_turn) = (None, Instant::now());
                    None
                }
                Step::Message(message) => self.take(message).err(),
                Step::Tick => self.tick(socket).await.err(),
                Step::Leave => Some(Ending::GoingAway),
            };
            if let Some(ending) = ending {
                return ending;
            }
        }
    }

    async fn step<T>(&mut self, socket: &mut WebSocketStream<T>, drain: &CancellationToken) -> Step
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let (is_idle, has_room) = (self.turn.is_none(), self.waiting.len() < MAX_WAITING);
        let wake = if is_idle { self.next_ping.min(self.idle_end()) } else { self.next_ping };
        let turn = &mut self.turn;
        let next_event = async {
            match turn {
                Some(turn) => turn.next_event().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = next_event => Step::Event(event),
            message = socket.next(), if has_room => Step::Message(message),
            () = drain.cancelled(), if is_idle => Step::Leave,
            () = sleep_until(wake) => Step::Tick,
        }
    }

    fn begin(&self, waiting: WaitingTurn) -> Turn {
        let Socket { origin, respond, headers, cpu, .. } = &self.facts;
        Turn::begin((origin.clone(), *respond), headers.clone(), cpu, Arc::clone(&self.earlier), waiting)
    }

    fn idle_end(&self) -> Instant {
        self.last_turn + self.facts.origin.state.settings.socket_idle
    }

    fn take(
        &mut self,
        message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<(), Ending> {
        let message = match message {
            None => return Err(Ending::Left),
            Some(Err(error)) => return Err(Ending::of(&error, self.meter.is_refused())),
            Some(Ok(message)) => message,
        };
        self.unanswered_pings = 0;
        match message {
            Message::Text(message) => {
                let state = &self.facts.origin.state;
                let holding = self.meter.take(state.sockets.holding(&self.facts.key_id));
                self.waiting.push_back(WaitingTurn { message, holding });
                self.last_turn = Instant::now();
                Ok(())
            }
            Message::Binary(_) => Err(Ending::NotText),
            Message::Close(_) => Err(Ending::Left),
            // The pong is written with the next read.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        }
    }

    async fn tick<T>(&mut self, socket: &mut WebSocketStream<T>) -> Result<(), Ending>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let now = Instant::now();
        if self.turn.is_none() && now >= self.idle_end() {
            return Err(Ending::Idle);
        }
        if now < self.next_ping {
            return Ok(());
        }
        let is_read = self.waiting.len() < MAX_WAITING;
        if is_read && self.unanswered_pings >= MAX_UNANSWERED_PINGS {
            return Err(Ending::Left);
        }
        self.unanswered_pings += u32::from(is_read);
        self.send(socket, Message::Ping(Bytes::new())).await
    }

    /// Sends a message. The client takes it before the next one is made, so a slow client slows its turn down.
    async fn send<T>(&mut self, socket: &mut WebSocketStream<T>, message: Message) -> Result<(), Ending>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        self.next_ping = Instant::now() + PING_INTERVAL;
        send_message(socket, message).await.map_err(|_| Ending::Left)
    }
}
