//! Guards of sessions (`[[guards]]`): they warn about a run of an agent that makes too many calls, costs or lasts too much,
//! or repeats its tool calls, or they stop it. A request without a session has no guard.

mod tool_calls;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use gw_limits::{Limiter, SessionId, SessionLimit, SessionLimits, SessionRequest};
use gw_wire::json::View;
use gw_wire::money::Money;

use self::tool_calls::ConversationCalls;
use crate::error::{Error, Kind};
use crate::metrics::Metrics;
use crate::occurrences::Occurrence;
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::settings::{GuardAction, GuardSettings};

/// All guards, in the order of the configuration.
#[derive(Debug, Default)]
pub(crate) struct SessionGuards(Vec<GuardSettings>);

/// A request whose session is guarded.
#[derive(Debug)]
pub(crate) struct GuardedRequest {
    id: SessionId,
    /// Beyond these limits the request is refused.
    stop: SessionLimits,
    /// Beyond these limits the answer carries a warning.
    warn: SessionLimits,
    calls: ConversationCalls,
}

/// Adds the cost of a request to its session when the request is over.
#[derive(Debug)]
pub(crate) struct SessionCharge {
    limiter: Limiter,
    id: SessionId,
}

impl SessionGuards {
    pub(crate) fn new(guards: &[GuardSettings]) -> Self {
        Self(guards.to_vec())
    }

    /// The request as its guards see it; None if no guard applies to it.
    pub(crate) fn of(
        &self,
        client: &RequestContext,
        request: &ValidatedRequest,
    ) -> Option<Box<GuardedRequest>> {
        self.of_model(client, request.model(), || request.messages())
    }

    /// The request on a pass-through route as its guards see it. Its tool calls are not counted.
    pub(crate) fn of_forwarded(&self, client: &RequestContext, model: &str) -> Option<Box<GuardedRequest>> {
        self.of_model(client, model, || None)
    }

    fn of_model<'r>(
        &self,
        client: &RequestContext,
        model: &str,
        messages: impl FnOnce() -> Option<View<'r>>,
    ) -> Option<Box<GuardedRequest>> {
        let name = client.session.as_ref()?;
        let (mut stop, mut warn) = (SessionLimits::default(), SessionLimits::default());
        let mut is_guarded = false;
        for guard in self.0.iter().filter(|guard| applies(guard, client, model)) {
            is_guarded = true;
            let limits = match guard.action {
                GuardAction::Stop => &mut stop,
                GuardAction::Warn => &mut warn,
            };
            *limits = limits.stricter(guard.limits);
        }
        if !is_guarded {
            return None;
        }
        let counts_repeats = stop.max_repeats.or(warn.max_repeats).is_some();
        let messages = counts_repeats.then(messages).flatten();
        Some(Box::new(GuardedRequest {
            id: SessionId { key_id: Arc::clone(client.caller.key_id()), name: Arc::clone(name) },
            stop,
            warn,
            calls: messages.map(ConversationCalls::of).unwrap_or_default(),
        }))
    }
}

/// Whether a guard applies to a request for this model. An empty list matches everything.
fn applies(guard: &GuardSettings, client: &RequestContext, model: &str) -> bool {
    let has = |list: &[String], name: &str| list.iter().any(|known| known == name);
    let caller = &client.caller;
    let bare = model.strip_suffix(":floor").or_else(|| model.strip_suffix(":nitro")).unwrap_or(model);
    let is_key =
        guard.keys.is_empty() || has(&guard.keys, caller.key_name()) || has(&guard.keys, caller.key_id());
    let is_alias = guard.aliases.is_empty() || has(&guard.aliases, model) || has(&guard.aliases, bare);
    let is_team = guard.teams.is_empty() || caller.team().is_some_and(|team| has(&guard.teams, team));
    is_key && is_alias && is_team
}

impl GuardedRequest {
    /// Counts the request in its session. Returns the warnings for its answer.
    ///
    /// # Errors
    /// `session_limit_reached`.
    pub(crate) async fn admit(
        &self,
        limiter: &Limiter,
        metrics: &Metrics,
    ) -> Result<Vec<Cow<'static, str>>, Error> {
        let used = limiter.enter_session(&self.request()).await.map_err(|limit| {
            metrics.session_limit(setting(limit), "stop");
            metrics.occurrences.tell(|| Occurrence::SessionStopped(Arc::clone(&self.id.name)));
            self.error(limit)
        })?;
        let warnings = self.warn.exceeded_by(used).map(|limit| {
            metrics.session_limit(setting(limit), "warn");
            Cow::Borrowed(warning(limit))
        });
        Ok(warnings.collect())
    }

    /// As [`GuardedRequest::admit`], but counts nothing.
    ///
    /// # Errors
    /// `session_limit_reached`.
    pub(crate) async fn look(&self, limiter: &Limiter) -> Result<Vec<Cow<'static, str>>, Error> {
        let used = limiter.look_at_session(&self.request()).await.map_err(|limit| self.error(limit))?;
        Ok(self.warn.exceeded_by(used).map(|limit| Cow::Borrowed(warning(limit))).collect())
    }

    fn request(&self) -> SessionRequest<'_> {
        let ConversationCalls { newest, most_equal } = &self.calls;
        SessionRequest { id: &self.id, newest_calls: newest, equal_calls: *most_equal, stop: self.stop }
    }

    /// Charges the session when the request is over.
    pub(crate) fn charge(&self, limiter: &Limiter) -> SessionCharge {
        SessionCharge { limiter: limiter.clone(), id: self.id.clone() }
    }

    fn error(&self, limit: SessionLimit) -> Error {
        let (stop, name) = (&self.stop, &self.id.name);
        let reason = match limit {
            SessionLimit::Calls => format!("has made {} calls", stop.max_calls.unwrap_or_default()),
            SessionLimit::Cost => {
                format!("has cost {} USD", Money::from_femtos(stop.max_cost_femtos.unwrap_or_default()))
            }
            SessionLimit::Age => format!("is {} minutes old", minutes(stop.max_age.unwrap_or_default())),
            SessionLimit::Repeats => {
                format!("has repeated a tool call more than {} times", stop.max_repeats.unwrap_or_default())
            }
        };
        let setting = setting(limit);
        let message = format!(
            "The session '{name}' {reason}, which is its limit '{setting}'. Check what the agent is doing, and start a new session to go on."
        );
        Error::new(Kind::SessionLimitReached, message)
    }
}

impl SessionCharge {
    /// Adds the cost of the request.
    pub(crate) fn settle(self, cost: Money) {
        self.limiter.charge_session(&self.id, cost.femtos());
    }
}

fn minutes(age: Duration) -> u64 {
    age.as_secs() / 60
}

/// The setting that holds a limit.
fn setting(limit: SessionLimit) -> &'static str {
    match limit {
        SessionLimit::Calls => "max_calls",
        SessionLimit::Cost => "max_cost_usd",
        SessionLimit::Age => "max_minutes",
        SessionLimit::Repeats => "max_repeats",
    }
}

fn warning(limit: SessionLimit) -> &'static str {
    match limit {
        SessionLimit::Calls => "session_limit:max_calls",
        SessionLimit::Cost => "session_limit:max_cost_usd",
        SessionLimit::Age => "session_limit:max_minutes",
        SessionLimit::Repeats => "session_limit:max_repeats",
    }
}
