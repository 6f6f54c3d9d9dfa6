//! The client's error when a limit or a budget refuses a request.

use std::time::Duration;

use gw_limits::{Refusal, SubjectKind};
use gw_store::Period;
use gw_wire::money::Money;

use crate::error::{Error, Kind};

/// Femto-USD of a nano-USD.
const NANO_USD: i128 = 1_000_000;
/// The `Retry-After` for a concurrency limit, which may have room at any moment.
const CONCURRENCY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The `Retry-After` while the store of budgets is unavailable.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The error of a refusal. A limit has a `Retry-After`; a budget has none, because a retry does not help.
pub(crate) fn error(refusal: &Refusal) -> Error {
    match *refusal {
        Refusal::Requests { subject, limit, retry_after } => {
            too_fast(&format!("Rate limit reached for this {subject}: {limit} requests per minute."), retry_after)
        }
        Refusal::Tokens { subject, limit, wanted, retry_after: Some(wait) } => too_fast(
            &format!("Rate limit reached for this {subject}: {limit} tokens per minute; this request may need {wanted}."),
            wait,
        ),
        Refusal::Tokens { subject, limit, wanted, retry_after: None } => Error::new(
            Kind::RateLimitExceeded,
            format!(
                "This request may need {wanted} tokens, and this {subject} has {limit} per minute. Ask for fewer with 'max_tokens'."
            ),
        )
        .retry_after(Duration::from_secs(60))
        .finally(),
        Refusal::InFlight { subject, limit } => {
            too_fast(&format!("This {subject} has {limit} requests in flight, which is its limit."), CONCURRENCY_RETRY_AFTER)
        }
        Refusal::Budget { subject, period, resets_in, .. } => over_budget(subject, "", (period, resets_in)),
        Refusal::StoreUnavailable => Error::new(
            Kind::BudgetStoreUnavailable,
            "The budget of this key cannot be looked up now, so the request is refused.",
        )
        .retry_after(STORE_RETRY_AFTER),
    }
}

/// The error of a refused reservation. `shortest` is the cost of the request with short answers, or None if the client
/// cannot shorten them. The error advises a smaller `max_tokens` if the budget has enough left for short answers.
pub(crate) fn reservation_error(refusal: &Refusal, shortest: Option<Money>) -> Error {
    match *refusal {
        Refusal::Budget { subject, period, resets_in, left_nano }
            if shortest.is_some_and(|cost| cost <= Money::from_femtos(i128::from(left_nano) * NANO_USD)) =>
        {
            over_budget(subject, " A smaller 'max_tokens' lowers this cost.", (period, resets_in))
        }
        _ => error(refusal),
    }
}

/// Of two refusals, that of the rule which stands first in the configuration.
pub(crate) fn first_of(one: Error, other: Option<Error>) -> Error {
    let place = |error: &Error| error.rule.as_ref().map_or(usize::MAX, |rule| rule.place);
    match other {
        Some(other) if place(&other) < place(&one) => other,
        _ => one,
    }
}

/// The error of a request whose cost a budget cannot know (`unpriced = "refuse"`).
pub(crate) fn unpriced(refusing: &str, model: &str) -> Error {
    Error::new(
        Kind::InsufficientQuota,
        format!(
            "The price of the model '{model}' is unknown, and {refusing} refuses requests whose cost it cannot know (unpriced = \"refuse\")."
        ),
    )
}

fn over_budget(subject: SubjectKind, advice: &str, (period, resets_in): (Period, Option<Duration>)) -> Error {
    let ending = match resets_in.map(in_words) {
        // The refusal does not tell when the next amount was spent, so the end of the step is no promise.
        Some(wait) if period.step().is_some() => {
            let name = period.as_str();
            format!(" Its period is the last {name}: what was spent longest ago may leave it in {wait}.")
        }
        Some(wait) => format!(" The budget is counted anew in {wait}."),
        None => String::new(),
    };
    Error::new(
        Kind::InsufficientQuota,
        format!(
            "The budget of this {subject} cannot cover the highest possible cost of this request beside the amounts already spent and reserved.{advice}{ending}"
        ),
    )
}

fn too_fast(message: &str, wait: Duration) -> Error {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let wait = Duration::from_secs(seconds.max(1));
    Error::new(Kind::RateLimitExceeded, format!("{message} Please try again in {}s.", wait.as_secs()))
        .retry_after(wait)
}

/// A duration in hours or days, rounded up.
fn in_words(wait: Duration) -> String {
    let hours = wait.as_secs().div_ceil(3600);
    match hours {
        1 => "1 hour".to_owned(),
        ..=48 => format!("{hours} hours"),
        _ => format!("{} days", hours.div_ceil(24)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Retry;

    #[test]
    fn a_limit_says_when_to_come_back_and_a_budget_does_not() {
        let wait = Duration::from_millis(1_200);
        let slow = error(&Refusal::Requests { subject: SubjectKind::Key, limit: 3, retry_after: wait });
        assert_eq!((slow.code(), slow.retry_after), ("rate_limit_exceeded", Some(Duration::from_secs(2))));
        assert!(slow.message.contains("this key: 3 requests") && slow.message.ends_with("in 2s."));
        let never = Refusal::Tokens { subject: SubjectKind::Team, limit: 5, wanted: 6, retry_after: None };
        let never = error(&never);
        assert!(never.message.contains("max_tokens"));
        assert_eq!((never.retry(), slow.retry()), (Retry::Useless, Retry::AfterWait));
        let poor = error(&Refusal::Budget {
            subject: SubjectKind::Team,
            period: Period::Day,
            resets_in: Some(Duration::from_secs(7_000)),
            left_nano: 0,
        });
        assert_eq!((poor.status(), poor.code(), poor.retry_after), (429, "insufficient_quota", None));
        assert!(
            poor.message.contains("this team")
                && poor.message.ends_with("The budget is counted anew in 2 hours.")
        );
        let away = error(&Refusal::StoreUnavailable);
        assert_eq!((away.status(), away.code()), (503, "budget_store_unavailable"));
    }

    #[test]
    fn only_a_budget_of_the_calendar_is_counted_anew() {
        let ending = |period: &str, resets_in: Option<u64>| {
            let period = Period::parse(period).expect("a period");
            let resets_in = resets_in.map(Duration::from_secs);
            let refusal = Refusal::Budget { subject: SubjectKind::Key, period, resets_in, left_nano: 0 };
            let message = error(&refusal).message;
            let (_, ending) = message.split_once("spent and reserved.").expect("the first sentence");
            ending.to_owned()
        };
        assert_eq!(ending("week", Some(400_000)), " The budget is counted anew in 5 days.");
        assert_eq!(
            ending("30d", Some(3_600)),
            " Its period is the last 30d: what was spent longest ago may leave it in 1 hour."
        );
        assert_eq!(ending("total", None), "");
    }

    #[test]
    fn a_budget_names_max_tokens_only_where_a_short_answer_fits() {
        let refusal = Refusal::Budget {
            subject: SubjectKind::Key,
            period: Period::Total,
            resets_in: None,
            left_nano: 500,
        };
        let nano = |count: i128| Some(Money::from_femtos(count * NANO_USD));
        for (shortest, is_named) in [(nano(500), true), (nano(501), false), (None, false)] {
            let error = reservation_error(&refusal, shortest);
            assert_eq!((error.status(), error.code()), (429, "insufficient_quota"));
            assert_eq!(
                error.message.ends_with("A smaller 'max_tokens' lowers this cost."),
                is_named,
                "{shortest:?}"
            );
        }
        let rate = Refusal::InFlight { subject: SubjectKind::Key, limit: 1 };
        assert_eq!(reservation_error(&rate, nano(0)).message, error(&rate).message);
    }
}
