//! A session in progress: its two directions, the responses that run, and its end.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use gw_engine::Caller;
use gw_engine::cpu_pool::CpuPool;
use gw_engine::error::{Error, GATEWAY_SHUTDOWN, Kind, Result};
use gw_engine::realtime::{PromptSize, RealtimeResponse, RealtimeSession, UpstreamSocket};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Duration, Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use super::context_size::ContextSize;
use super::requests::{self, SessionFacts};
use super::{client_side, upstream_side};
use crate::attribution::names_of;
use crate::metrics::RouteLabel;
use crate::origin::Origin;
use crate::outgoing::BodyObserver;
use crate::request_record::RequestRecord;
use crate::sockets::closing::{Ending, close_with};
use crate::sockets::identify;
use crate::sockets::message_meter::{MessageMeter, MeteredIo};
use crate::state::ServerState;
use crate::takeover::RawIo;

/// The most responses of a session that run or wait for the upstream.
const MAX_RESPONSES: usize = 8;
/// Ended responses whose ids a session remembers.
const MAX_ENDED: usize = 16;
/// The most messages of the gateway itself that wait for a direction.
const MAX_OWN_MESSAGES: usize = 8;
/// A socket without a message needs no larger buffer.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// A peer from which nothing has come for so long does not answer pings, and is gone.
const SILENCE: Duration = Duration::from_secs(120);
/// The time between two looks at the key and its budgets while the client speaks and a model transcribes it.
const TRANSCRIPT_CHECK: Duration = Duration::from_secs(1);
/// The time in which an upstream takes the close frame.
const UPSTREAM_CLOSE: Duration = Duration::from_secs(1);

/// The socket of a client.
pub(super) type ClientSocket = WebSocketStream<MeteredIo<Box<dyn RawIo>>>;

/// The reason for which a session ends.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// A reason of the gateway or of the client's connection.
    Own(Ending),
    /// The client closed with this frame.
    Client(Option<CloseFrame>),
    /// The upstream closed with this frame.
    Upstream(Option<CloseFrame>),
}

/// A response that runs, with its record.
#[derive(Debug)]
pub(super) struct OpenResponse {
    /// The upstream's id; None: the upstream has not begun it.
    id: Option<String>,
    /// The id of the client's event that asked for it.
    event_id: Option<String>,
    response: RealtimeResponse,
    record: Box<RequestRecord>,
}

/// The part of a session that both directions change.
#[derive(Debug)]
pub(super) struct LiveSession {
    responses: VecDeque<OpenResponse>,
    /// The upstream's ids of the last responses that ended. An upstream that repeats their end charges nothing.
    ended: VecDeque<String>,
    pub(super) context_size: ContextSize,
    /// The model that transcribes what the client says.
    pub(super) transcriber: Option<String>,
    /// The last moment at which the key and its budgets allowed transcripts.
    transcripts_checked: Option<Instant>,
    /// The holder of the key, as the last response found it.
    caller: Caller,
    /// The gateway goes away: no further response begins.
    pub(super) is_leaving: bool,
    pub(super) last_event: Instant,
    pub(super) last_client: Instant,
    pub(super) last_upstream: Instant,
}

/// A session in progress.
pub(super) struct Relay {
    pub(super) origin: Origin,
    route: RouteLabel,
    headers: HeaderMap,
    pub(super) session: RealtimeSession,
    facts: SessionFacts,
    pub(super) key_id: Arc<str>,
    pub(super) cpu: CpuPool,
    pub(super) opened: Instant,
    live: Mutex<LiveSession>,
    /// The upstream takes no more.
    lost: Notify,
}

impl Relay {
    pub(super) fn new(
        origin: Origin,
        route: RouteLabel,
        (headers, caller): (HeaderMap, Caller),
        (session, facts): (RealtimeSession, SessionFacts),
    ) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            key_id: Arc::clone(caller.key_id()),
            cpu: origin.state.engine.cpu_of(&caller),
            origin,
            route,
            headers,
            session,
            facts,
            opened: now,
            live: Mutex::new(LiveSession {
                ended: VecDeque::with_capacity(MAX_ENDED),
                responses: VecDeque::new(),
                context_size: ContextSize::default(),
                transcriber: None,
                transcripts_checked: None,
                caller,
                is_leaving: false,
                last_event: now,
                last_client: now,
                last_upstream: now,
            }),
            lost: Notify::new(),
        })
    }

    /// Relays the session to its end.
    pub(super) async fn serve(
        self: Arc<Self>,
        io: Box<dyn RawIo>,
        mut upstream: UpstreamSocket,
        drain: CancellationToken,
    ) {
        let state = Arc::clone(&self.origin.state);
        let meter = MessageMeter::new(state.sockets.holding(&self.key_id));
        let most_bytes = state.settings.body_limit;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(most_bytes))
            .max_frame_size(Some(most_bytes));
        let io = MeteredIo::new(io, meter.clone(), most_bytes);
        let mut client = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let upstream_meter = MessageMeter::new(state.sockets.holding(&self.key_id));
        upstream.get_mut().count_reads(Box::new(upstream_meter.clone()));
        let end = {
            let (to_client, from_client) = (&mut client).split();
            let (to_upstream, from_upstream) = (&mut upstream).split();
            let (orders, ordered) = mpsc::channel(MAX_OWN_MESSAGES);
            let (notices, noticed) = mpsc::channel(MAX_OWN_MESSAGES);
            let up = client_side::run(&self, (from_client, to_upstream, &meter), ordered, notices);
            let down = upstream_side::run(
                &self,
                (from_upstream, to_client, &upstream_meter),
                (noticed, orders),
                &drain,
            );
            tokio::select! {
                end = up => end,
                end = down => end,
            }
        };
        self.end_responses(&end);
        let (for_client, for_upstream) = end.frames();
        let closing = async {
            let _ = upstream.close(for_upstream).await;
        };
        let _ = timeout(UPSTREAM_CLOSE, closing).await;
        drop(upstream);
        close_with(&mut client, for_client).await;
    }

    /// Notes that the upstream takes no more.
    pub(super) fn lose_upstream(&self) {
        self.lost.notify_one();
    }

    /// Waits until the upstream takes no more.
    pub(super) async fn upstream_lost(&self) {
        self.lost.notified().await;
    }

    /// The reason for which the session must end by now.
    pub(super) fn overdue(&self) -> Option<Ending> {
        let now = Instant::now();
        self.deadlines().into_iter().find(|(due, _)| *due <= now).map(|(_, ending)| ending)
    }

    /// The next moment at which the session may have to end.
    pub(super) fn next_deadline(&self) -> Instant {
        let [(first, _), rest @ ..] = self.deadlines();
        rest.iter().fold(first, |least, (due, _)| least.min(*due))
    }

    fn deadlines(&self) -> [(Instant, Ending); 4] {
        let settings = &self.origin.state.settings;
        let live = self.live();
        let idle_from = if live.is_busy() { Instant::now() } else { live.last_event };
        [
            (live.last_client + SILENCE, Ending::Left),
            (live.last_upstream + SILENCE, Ending::UpstreamGone),
            (self.opened + settings.realtime_session, Ending::Expired),
            (idle_from + settings.socket_idle, Ending::Idle),
        ]
    }

    /// Whether the gateway goes away, and whether a response runs.
    pub(super) fn progress(&self) -> (bool, bool) {
        let live = self.live();
        (live.is_leaving, live.is_busy())
    }

    /// The state that both directions change.
    pub(super) fn live(&self) -> parking_lot::MutexGuard<'_, LiveSession> {
        self.live.lock()
    }

    /// The holder of the key as it is now.
    ///
    /// # Errors
    /// The key is not valid any more.
    pub(super) fn refreshed_caller(&self) -> Result<Caller> {
        let caller = identify(&self.origin.state, &self.headers)?;
        ServerState::check_may_generate(&caller)?;
        self.live().caller = caller.clone();
        Ok(caller)
    }

    /// Checks whether the model of this name may transcribe.
    ///
    /// # Errors
    /// The key is not valid any more, or may not use the model, or a budget refuses a model without a price.
    pub(super) fn check_transcriber(&self, name: &str) -> Result<()> {
        let caller = self.refreshed_caller()?;
        let names = names_of(&self.headers, b"", caller.trusts_attribution());
        let asker = (&caller, names.attribution.as_deref());
        self.origin.state.engine.check_transcriber(&self.session, asker, name)
    }

    /// Checks whether what the client says may be transcribed: nothing is reserved for a transcript, because only the upstream knows when
    /// it makes one. Between two looks at sound that was not committed is a second.
    ///
    /// # Errors
    /// The key is not valid any more, or a budget is spent.
    pub(super) async fn check_transcripts(&self, is_commit: bool) -> Result<()> {
        let now = Instant::now();
        {
            let mut live = self.live();
            if !is_commit && live.transcripts_checked.is_some_and(|at| now - at < TRANSCRIPT_CHECK) {
                return Ok(());
            }
            live.transcripts_checked = None;
        }
        let caller = self.refreshed_caller()?;
        let names = names_of(&self.headers, b"", caller.trusts_attribution());
        let attribution = names.attribution.as_deref();
        self.origin.state.engine.check_transcript_budget(&self.session, &caller, attribution).await?;
        self.live().transcripts_checked = Some(now);
        Ok(())
    }

    /// The holder of the key as the last response found it.
    pub(super) fn last_caller(&self) -> Caller {
        self.live().caller.clone()
    }

    /// The record and the context of a request of the session.
    pub(super) fn request(
        &self,
        caller: Caller,
        asked: &Bytes,
    ) -> (Box<RequestRecord>, Box<gw_engine::RequestContext>) {
        let (record, log) = requests::record(&self.origin, self.route, &self.headers, &caller, asked);
        let context = requests::context(&record, &self.headers, caller, &log, &self.facts);
        (record, context)
    }

    /// Begins a response that the client asks for.
    ///
    /// # Errors
    /// The refusal of a limit, a budget, a rule or a guard, or of the session's own bounds.
    pub(super) async fn ask(&self, asked: &Bytes, size: PromptSize, event_id: Option<String>) -> Result<()> {
        {
            let live = self.live();
            if live.is_leaving || self.origin.state.is_draining() {
                return Err(Error::new(Kind::NoAvailableProvider, "The gateway is shutting down."));
            }
            if live.responses.len() >= MAX_RESPONSES {
                let message = "The session has as many responses in progress as it may have.";
                return Err(Error::new(Kind::RateLimitExceeded, message));
            }
        }
        let caller = self.refreshed_caller()?;
        let response = self.begin(caller, asked, (size, false)).await?;
        self.live().responses.push_back(OpenResponse { id: None, event_id, ..response });
        Ok(())
    }

    /// Begins a response that the upstream makes by itself. Returns the reason for which it should not go on.
    pub(super) async fn adopt(&self, id: &str, event: &Bytes) -> Option<Error> {
        let (caller, refused) = match self.refreshed_caller() {
            Ok(caller) => (caller, None),
            Err(error) => (self.last_caller(), Some(error)),
        };
        let size = self.live().context_size.size(None);
        match self.begin(caller, event, (size, true)).await {
            Ok(response) => {
                let of_limits = response.response.refusal().cloned();
                let mut live = self.live();
                if live.responses.len() < MAX_RESPONSES {
                    live.responses.push_back(OpenResponse { id: Some(id.to_owned()), ..response });
                }
                refused.or(of_limits)
            }
            Err(error) => refused.or(Some(error)),
        }
    }

    async fn begin(
        &self,
        caller: Caller,
        asked: &Bytes,
        (size, is_forced): (PromptSize, bool),
    ) -> Result<OpenResponse> {
        let (mut record, context) = self.request(caller, asked);
        let engine = &self.origin.state.engine;
        match engine.begin_realtime_response(&self.session, context, size, is_forced).await {
            Ok(response) => {
                record.status = Some(StatusCode::OK);
                Ok(OpenResponse { id: None, event_id: None, response, record })
            }
            Err(error) => {
                record.status = StatusCode::from_u16(error.kind.row().0).ok();
                record.code = Some(error.code().to_owned());
                record.is_complete = true;
                Err(error)
            }
        }
    }

    /// Ends all responses that still run, because the session is over.
    fn end_responses(&self, end: &SessionEnd) {
        let open = std::mem::take(&mut self.live().responses);
        let code = match end {
            SessionEnd::Upstream(_) | SessionEnd::Own(Ending::UpstreamGone | Ending::NoMemory) => {
                Kind::UpstreamStreamError.code()
            }
            SessionEnd::Own(Ending::GoingAway | Ending::Expired) => GATEWAY_SHUTDOWN,
            SessionEnd::Own(Ending::KeyRefused) => Kind::InvalidApiKey.code(),
            // A response that is dropped ends like a request whose client has gone.
            SessionEnd::Own(_) | SessionEnd::Client(_) => return,
        };
        for OpenResponse { response, mut record, .. } in open {
            response.torn(code);
            record.is_complete = true;
        }
    }
}

impl LiveSession {
    /// Whether a response runs.
    fn is_busy(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Gives the oldest response that the client asked for the upstream's id. False: there is none.
    pub(super) fn begun(&mut self, id: &str) -> bool {
        let asked = self.responses.iter_mut().find(|open| open.id.is_none());
        asked.map(|open| open.id = Some(id.to_owned())).is_some()
    }

    /// Notes output of a response.
    pub(super) fn note_output(&mut self, id: &str, text_bytes: u64, audio_chars: u64) {
        if let Some(open) = self.responses.iter_mut().find(|open| open.id.as_deref() == Some(id)) {
            open.response.note_output(text_bytes, audio_chars);
            open.record.bytes_out = open.record.bytes_out.saturating_add(text_bytes + audio_chars);
        }
    }

    /// Takes the response of this id.
    pub(super) fn take(&mut self, id: &str) -> Option<OpenResponse> {
        let at = self.responses.iter().position(|open| open.id.as_deref() == Some(id))?;
        self.responses.remove(at)
    }

    /// Notes the end of the response of this id. False: it has ended before.
    pub(super) fn note_end(&mut self, id: &str) -> bool {
        if self.ended.iter().any(|ended| ended == id) {
            return false;
        }
        if self.ended.len() >= MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(id.to_owned());
        true
    }

    /// Takes the response that the client asked for with this event. Without an id it is the oldest one whose event had none.
    pub(super) fn take_asked(&mut self, event_id: Option<&str>) -> Option<OpenResponse> {
        let is_asked = |open: &OpenResponse| open.id.is_none() && open.event_id.as_deref() == event_id;
        let at = self.responses.iter().position(is_asked)?;
        self.responses.remove(at)
    }
}

impl OpenResponse {
    /// Ends it as the upstream has ended it. `event` is the upstream's last word about it.
    pub(super) fn done(
        self,
        status: &str,
        usage: Option<&str>,
        event: &Bytes,
    ) -> Option<gw_wire::usage::Usage> {
        let Self { response, mut record, .. } = self;
        let usage = response.done(status, usage);
        record.sent(event);
        record.is_complete = true;
        usage
    }

    /// Ends it, because the upstream refused it.
    pub(super) fn refused(self, code: &str) {
        let Self { response, mut record, .. } = self;
        response.refused(code);
        record.status = Some(StatusCode::BAD_REQUEST);
        record.code = Some(code.to_owned());
        record.is_complete = true;
    }
}

impl SessionEnd {
    /// The frames for the client and for the upstream. None for the client: it has closed or is gone.
    fn frames(self) -> (Option<CloseFrame>, Option<CloseFrame>) {
        let normal = || Some(CloseFrame { code: CloseCode::Normal, reason: "".into() });
        match self {
            Self::Own(ending) => (ending.frame(), normal()),
            Self::Client(frame) => (None, frame.filter(|frame| frame.code.is_allowed()).or_else(normal)),
            Self::Upstream(frame) => (frame.filter(|frame| frame.code.is_allowed()).or_else(normal), None),
        }
    }
}

/// A message of the gateway itself for the upstream.
pub(super) fn order(text: String) -> Message {
    Message::text(text)
}
