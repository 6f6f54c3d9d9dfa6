//! Decides which two upstreams a hedge may call. The reservation of a request and the hedge itself ask here.

use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;
use crate::settings::RoutingSettings;

/// Whether a slow call to `first` may be hedged by a call to `second`, as far as it does not depend on the moment.
pub(crate) fn may_hedge(
    request: &ValidatedRequest,
    routing: &RoutingSettings,
    first: &Candidate,
    second: &Candidate,
) -> bool {
    // Complete answers are not hedged: the slower upstream may have written its whole answer by the time it is
    // cancelled, and the cost of that cannot be known.
    let is_priced = match request.one_shot() {
        Some(request) => request.may_be_hedged(),
        None => request.wants_stream() || !request.writes_text(),
    };
    routing.hedge.is_some_and(|hedge| hedge.has_budget())
        && routing.max_attempts >= 2
        && is_priced
        && !second.is_upgrade
        && request.calls(first) == 1
        && request.calls(second) == 1
}
