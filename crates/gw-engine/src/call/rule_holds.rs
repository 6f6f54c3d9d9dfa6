//! The reservations of rules of targets and of rules in shadow mode for a request. The rules of the target that serves count the
//! request in the end. Those of other targets give everything back.

use std::borrow::Cow;
use std::sync::Arc;

use gw_limits::{AdmissionPermit, Limiter, PART, Refusal, Reservation, Subject};

use crate::error::Result;
use crate::request::context::RequestContext;
use crate::rules::{Counter, Need, RequestRules};

/// Everything that rules hold for one request beside its reservation.
#[derive(Debug, Default)]
pub(crate) struct RuleHolds {
    holds: Vec<RuleHold>,
    /// How many reservations were asked for. Each has an id of its own.
    asked: u32,
    /// Rules in shadow mode that have noted that they would refuse the request.
    would_refuse: Vec<Arc<Subject>>,
    /// The request is a part of one that the rules have counted already: a response of a session.
    is_part: bool,
}

/// The reservation of one rule of the whole request, or of the rules of one target.
#[derive(Debug)]
struct RuleHold {
    /// The catalogue id of the model; None = the whole request.
    target: Option<Arc<str>>,
    reservation: Reservation,
    permit: AdmissionPermit,
    counted: CountedRates,
    /// It holds more for counters that another one holds for.
    is_further: bool,
    /// The request asks for more than it holds for.
    is_outgrown: bool,
}

/// A request that is counted in requests per minute, and is taken back when this is dropped.
#[derive(Debug, Default)]
struct CountedRates(Option<Box<RateCount>>);

/// The limiter, the id of the permit, and the rules that count it.
type RateCount = (Limiter, String, Vec<Arc<Subject>>);

impl CountedRates {
    fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for CountedRates {
    fn drop(&mut self) {
        if let Some(counted) = self.0.take() {
            let (limiter, id, subjects) = *counted;
            limiter.take_back(&id, &subjects);
        }
    }
}

impl RuleHold {
    /// The request is over, and these rules count it.
    fn settle(&mut self, request_id: &str, (tokens, femtos): Need) {
        self.counted.keep();
        self.reservation.settle(request_id, tokens, femtos);
        self.permit = AdmissionPermit::default();
    }
}

impl RuleHolds {
    /// Settles everything. `served`: the catalogue id of the model that answered. `used`: the tokens and the money of the request.
    pub(crate) fn settle(mut self, request_id: &str, served: Option<&str>, used: Need) {
        let last = self.holds.iter().rev().find_map(|hold| hold.target.clone());
        let serving = served.or(last.as_deref());
        let counts = |hold: &RuleHold| hold.target.is_none() || hold.target.as_deref() == serving;
        for hold in self.holds.iter_mut().filter(|hold| counts(hold) && !hold.is_further) {
            hold.settle(request_id, used);
        }
        // The cost is counted before anything else is released.
        self.holds.iter_mut().filter(|hold| counts(hold)).for_each(|hold| hold.settle(request_id, (0, 0)));
    }

    /// Takes everything back, because the request does not begin. Rules in shadow mode count only what is served.
    pub(crate) fn undo(self) {
        self.would_refuse.iter().for_each(|subject| subject.take_back_would_refuse());
    }

    /// Sets when the request began.
    pub(crate) fn set_begin(&mut self, unix: i64) {
        self.holds.iter_mut().for_each(|hold| hold.reservation.set_begin(unix));
    }

    /// The request is a part of one that the rules count in their limits of requests.
    pub(crate) fn be_part(&mut self) {
        self.is_part = true;
    }

    /// Ends a request whose session goes on: its rules have counted it, and it keeps its places among their requests in flight. The rules of
    /// other targets than `served` give everything back.
    pub(crate) fn into_permits(self, served: &str) -> Vec<AdmissionPermit> {
        let counts = |hold: &RuleHold| hold.target.as_deref().is_none_or(|target| target == served);
        let permit = |mut hold: RuleHold| {
            hold.counted.keep();
            hold.permit
        };
        self.holds.into_iter().filter(counts).map(permit).collect()
    }

    /// Takes the request back in all limits of requests. What is reserved stays.
    pub(crate) fn take_back_requests(&mut self) {
        self.holds.iter_mut().for_each(|hold| hold.counted = CountedRates::default());
    }

    /// The request asks for more from now on.
    pub(crate) fn outgrow(&mut self) {
        self.holds.iter_mut().for_each(|hold| hold.is_outgrown = true);
    }

    pub(crate) fn covers(&self, model: &str) -> bool {
        self.holds.iter().any(|hold| hold.target.as_deref() == Some(model) && !hold.is_outgrown)
    }

    fn knows(&self, model: &str) -> bool {
        self.holds.iter().any(|hold| hold.target.as_deref() == Some(model))
    }

    /// Gives back what the rules of other targets hold. Those of a target whose answer the client has in part stay.
    fn leave_others(&mut self, model: &str, answering: Option<&str>) {
        let stays = |target: &str| target == model || Some(target) == answering;
        self.holds.retain(|hold| hold.target.as_deref().is_none_or(stays));
    }

    fn next_id(&mut self, client: &RequestContext) -> String {
        self.asked += 1;
        format!("{}{PART}{}", client.request_id, self.asked)
    }

    /// Holds the whole worst case for the rules of the whole request, apart from what its key and its team hold.
    ///
    /// # Errors
    /// A rule has no room. Nothing is held.
    pub(crate) async fn hold_apart(
        &mut self,
        (limiter, client): (&Limiter, &RequestContext),
        rules: &RequestRules,
        (tokens, femtos): Need,
    ) -> std::result::Result<(), Refusal> {
        let id = self.next_id(client);
        let reservation = limiter.reserve(&id, rules.of_counters(), tokens, femtos).await?;
        self.holds.push(RuleHold::of(reservation));
        Ok(())
    }

    /// Holds for the rules of a target, which the request moves to. `need`: the tokens and the money of the worst case there.
    /// `is_unpriced`: nobody can know its cost there.
    ///
    /// # Errors
    /// A rule of the target has no room. The request is where it was.
    pub(crate) async fn enter(
        &mut self,
        (limiter, client): (&Limiter, &RequestContext),
        (model, answering): (&Arc<str>, Option<&str>),
        at: Option<&RequestRules>,
        (need, is_unpriced): (Need, bool),
    ) -> Result<Vec<Cow<'static, str>>> {
        let Some(at) = at else {
            self.leave_others(model, answering);
            return Ok(Vec::new());
        };
        let is_further = self.knows(model);
        let id = self.next_id(client);
        if !at.of_counters().is_empty() {
            let is_counted = is_further || self.is_part;
            let hold = enforced(limiter, &id, at, need, is_counted).await?;
            let hold = RuleHold { is_further, ..hold };
            self.holds.push(RuleHold { target: Some(Arc::clone(model)), ..hold });
        }
        self.leave_others(model, answering);
        if is_further {
            return Ok(Vec::new());
        }
        Ok(self.shadow((limiter, client), Some(model), at.shadows(), (need, is_unpriced)).await)
    }

    /// Counts a request in rules in shadow mode. Returns the warnings of those that would refuse it. `is_unpriced`: nobody can know its
    /// cost.
    pub(crate) async fn shadow(
        &mut self,
        (limiter, client): (&Limiter, &RequestContext),
        target: Option<&Arc<str>>,
        counters: &[Counter],
        (need, is_unpriced): (Need, bool),
    ) -> Vec<Cow<'static, str>> {
        let mut warnings = Vec::new();
        for counter in counters {
            let id = self.next_id(client);
            let (hold, refuses) = shadowed(limiter, &id, &counter.subject, need, self.is_part).await;
            if refuses || is_unpriced && counter.subject.refuses_unpriced() {
                counter.subject.note_would_refuse();
                self.would_refuse.push(Arc::clone(&counter.subject));
                warnings.push(Cow::Owned(format!("budget_shadow:{}", counter.settings.name)));
            }
            self.holds.push(RuleHold { target: target.cloned(), ..hold });
        }
        warnings
    }
}

/// Reserves with all rules of a target and counts the request in them, unless they have counted it already, or does neither.
async fn enforced(
    limiter: &Limiter,
    id: &str,
    at: &RequestRules,
    need: Need,
    is_counted: bool,
) -> Result<RuleHold> {
    let reserving = limiter.reserve(id, at.of_counters(), need.0, need.1);
    let reservation = match reserving.await {
        Ok(reservation) => reservation,
        Err(refused) => return Err(at.refusal(limiter, &refused, need).await),
    };
    let mut hold = RuleHold::of(reservation);
    let rated = at.rated();
    if !is_counted && !rated.is_empty() {
        hold.permit = at.admit(limiter, id).await?;
        hold.counted = CountedRates(Some(Box::new((limiter.clone(), id.to_owned(), rated))));
    }
    Ok(hold)
}

/// Reserves with a rule in shadow mode and counts the request in it. Returns whether it would refuse.
async fn shadowed(
    limiter: &Limiter,
    id: &str,
    subject: &Arc<Subject>,
    need: Need,
    is_counted: bool,
) -> (RuleHold, bool) {
    let subjects = [Arc::clone(subject)];
    let Ok(reservation) = limiter.reserve(id, &subjects, need.0, need.1).await else {
        let counting = [Arc::new(subject.refusing_nothing())];
        let reservation = limiter.reserve(id, &counting, 0, need.1).await;
        return (RuleHold::of(reservation.unwrap_or_default()), true);
    };
    let mut hold = RuleHold::of(reservation);
    if is_counted {
        return (hold, false);
    }
    let Ok(permit) = limiter.admit_rates(id, &subjects).await else { return (hold, true) };
    hold.permit = permit;
    hold.counted = CountedRates(Some(Box::new((limiter.clone(), id.to_owned(), subjects.into()))));
    (hold, false)
}

impl RuleHold {
    fn of(reservation: Reservation) -> Self {
        Self {
            target: None,
            reservation,
            permit: AdmissionPermit::default(),
            counted: CountedRates::default(),
            is_further: false,
            is_outgrown: false,
        }
    }
}
