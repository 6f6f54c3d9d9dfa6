//! The members of a body and what they change.

use gw_store::limits::{Budget, OnBudget, Period, UnpricedPolicy};
use gw_store::{NewKey, Role};

use super::*;

const USD: u64 = 1_000_000_000;

/// The code and the message of a rejection; `None` if the body is accepted.
fn rejection<T>(result: Result<T, AdminError>) -> Option<(String, String)> {
    match result {
        Err(AdminError::Rejected(error)) => Some((error.code().to_owned(), error.message.into_owned())),
        Err(AdminError::Store(error)) => panic!("a body is read without the store: {error}"),
        Ok(_) => None,
    }
}

fn new_key() -> StoredKey {
    NewKey::generate().unwrap().stored("k", Role::Inference, 0)
}

fn changed(key: &StoredKey, body: &str) -> StoredKey {
    let mut key = key.clone();
    KeyChanges::parse(body.as_bytes()).unwrap().apply(&mut key).unwrap();
    key
}

#[test]
fn an_absent_member_stays_and_null_clears() {
    let full = changed(
        &new_key(),
        r#"{"name":"n","role":"admin","team":"t","models":["a/m"],"rpm":60,"burst":5,"tpm":1000,"max_in_flight":2,
            "budget_usd":1.5,"budget_period":"day","on_budget":"cut","unpriced":"refuse","log_payloads":true,
            "expires_at":"2027-01-01T00:00:00Z","metadata":{"a":1}}"#,
    );
    let budget = Budget { nano: USD * 3 / 2, period: Period::Day };
    assert_eq!(
        full.limits,
        Limits {
            rpm: Some(60),
            burst: Some(5),
            tpm: Some(1000),
            max_in_flight: Some(2),
            budget: Some(budget),
            on_budget: OnBudget::Cut,
            unpriced: UnpricedPolicy::Refuse,
        }
    );
    assert_eq!((full.expires_at, full.metadata.as_deref()), (Some(1_798_761_600), Some(r#"{"a":1}"#)));
    assert_eq!(changed(&full, "{}"), full);
    let cleared = changed(
        &full,
        r#"{"name":"k","role":"inference","team":null,"models":null,"rpm":null,"tpm":null,"max_in_flight":null,
            "budget_usd":null,"unpriced":null,"log_payloads":null,"expires_at":null,"metadata":null}"#,
    );
    assert_eq!(cleared, StoredKey { id: full.id, hash: full.hash, ..new_key() });
}

#[test]
fn a_limit_that_another_one_carries_ends_with_it() {
    for (before, body, after) in [
        (r#"{"rpm":60,"burst":5}"#, r#"{"rpm":null}"#, "{}"),
        (r#"{"rpm":60,"burst":5}"#, r#"{"rpm":30}"#, r#"{"rpm":30,"burst":5}"#),
        (r#"{"rpm":60,"burst":5}"#, r#"{"burst":null}"#, r#"{"rpm":60}"#),
        (r#"{"budget_usd":1,"budget_period":"day"}"#, r#"{"budget_usd":null}"#, "{}"),
        (
            r#"{"budget_usd":1,"budget_period":"day"}"#,
            r#"{"budget_usd":2}"#,
            r#"{"budget_usd":2,"budget_period":"day"}"#,
        ),
        (r#"{"budget_usd":1,"budget_period":"day"}"#, r#"{"budget_period":null}"#, r#"{"budget_usd":1}"#),
        (r#"{"budget_usd":1,"on_budget":"cut"}"#, r#"{"budget_usd":null}"#, "{}"),
        (r#"{"budget_usd":1,"on_budget":"cut"}"#, r#"{"on_budget":null}"#, r#"{"budget_usd":1}"#),
        (r#"{"budget_usd":1,"unpriced":"refuse"}"#, r#"{"budget_usd":null}"#, r#"{"unpriced":"refuse"}"#),
        (r#"{"budget_usd":1,"unpriced":"refuse"}"#, r#"{"unpriced":null}"#, r#"{"budget_usd":1}"#),
    ] {
        let key = changed(&changed(&new_key(), before), body);
        assert_eq!(key.limits, changed(&new_key(), after).limits, "{before} then {body}");
    }
}

#[test]
fn a_wrong_limit_is_refused_with_its_name() {
    for (body, code, message) in [
        (r#"{"burst":5}"#, "invalid_value", "Invalid 'burst': it requires 'rpm'."),
        (r#"{"budget_period":"day"}"#, "invalid_value", "Invalid 'budget_period': it requires 'budget_usd'."),
        (
            r#"{"budget_usd":1,"budget_period":"0d"}"#,
            "invalid_value",
            "Invalid 'budget_period': expected one of 'day', 'week', 'month', 'quarter', 'total', or 1 to 366 days such as \
             '30d', but got '0d' instead.",
        ),
        (r#"{"on_budget":"cut"}"#, "invalid_value", "Invalid 'on_budget': it requires 'budget_usd'."),
        (
            r#"{"budget_usd":-1}"#,
            "decimal_below_min_value",
            "Invalid 'budget_usd': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        ),
        (
            r#"{"budget_usd":0.0000000001}"#,
            "invalid_value",
            "Invalid 'budget_usd': expected at most 9 digits before and 9 digits after the point.",
        ),
        (
            r#"{"budget_usd":1e2147483647}"#,
            "invalid_value",
            "Invalid 'budget_usd': expected at most 9 digits before and 9 digits after the point.",
        ),
        (
            r#"{"budget_usd":"1,5"}"#,
            "invalid_value",
            "Invalid 'budget_usd': expected a decimal number, but got '1,5' instead.",
        ),
        (
            r#"{"name":"n"}"#,
            "unsupported_parameter",
            "Invalid 'name': there is no such field. The fields are rpm, burst, tpm, max_in_flight, budget_usd, \
             budget_period, on_budget, unpriced.",
        ),
    ] {
        let found = rejection(parse_team_limits(body.as_bytes()));
        assert_eq!(found, Some((code.to_owned(), message.to_owned())), "{body}");
    }
}

#[test]
fn a_refused_change_leaves_the_key_as_it_is() {
    let before = new_key();
    let mut key = before.clone();
    KeyChanges::parse(br#"{"name":"other","burst":5}"#).unwrap().apply(&mut key).unwrap_err();
    assert_eq!(key, before);
}

#[test]
fn a_rotation_has_an_hour_of_grace_and_a_week_at_most() {
    for (body, seconds) in [
        ("", 3600),
        (" ", 3600),
        ("{}", 3600),
        (r#"{"grace_seconds":0}"#, 0),
        (r#"{"grace_seconds":604800}"#, 604_800),
    ] {
        assert_eq!(parse_grace_seconds(body.as_bytes()).unwrap(), seconds, "{body}");
    }
    let rejected = rejection(parse_grace_seconds(br#"{"grace_seconds":604801}"#));
    assert_eq!(rejected.unwrap().0, "integer_above_max_value");
}
