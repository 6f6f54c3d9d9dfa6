//! Reports by every name, and rules by every name, have what the rows of the ledger have, to the last digit.

use std::collections::BTreeMap;

use gw_store::ledger::Entry;
use gw_testkit::{Client, Gateway};
use gw_wire::money::Money;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::harness::{ADMIN, KEY};

/// Rules that refuse nothing: one for all requests, and one for each of these splits.
pub(super) fn rules(splits: &[&str]) -> String {
    let rule = |name: &str, split: &str| {
        format!("[[budgets]]\nname = \"{name}\"\n{split}budget_usd = 1000000\nperiod = \"total\"\n")
    };
    let all = rule("all", "");
    let split = |split: &&str| rule(&format!("by {split}"), &format!("split_by = [\"{split}\"]\n"));
    all + &splits.iter().map(split).collect::<String>()
}

/// The rules of every split, and a key of role admin, as lines for the end of a configuration.
pub(super) fn section() -> String {
    let all = [BY_NAMES.as_slice(), &BY_TARGETS].concat();
    rules(&all) + &format!("[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n")
}

/// Compares all reports and all rules with these rows, which are all of the ledger.
pub(super) async fn assert_agreement(gateway: &Gateway, rows: &[Entry]) {
    let (admin, asker) = (gateway.client().with_key(ADMIN), gateway.client().with_key(KEY));
    assert_reports(&admin, rows).await;
    assert_rules(&admin, &asker, rows).await;
}

/// Splits by the names of a request, and by its target. No hedge is sent to a target with a rule.
pub(super) const BY_NAMES: [&str; 3] = ["tag:ending", "end_user", "key"];
const BY_TARGETS: [&str; 2] = ["model", "provider"];
/// The groups of a report. A request has one of each, but for tags.
const GROUPS: [&str; 11] = [
    "end_user",
    "repository",
    "branch",
    "pull_request",
    "model",
    "provider",
    "key",
    "team",
    "surface",
    "session",
    "day",
];

/// The names of a group with their costs. None: requests without a name.
type Sums = BTreeMap<Option<String>, Money>;

#[derive(Deserialize)]
struct Report {
    data: Vec<BTreeMap<String, Box<RawValue>>>,
    total: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
struct Rules {
    data: Vec<RuleOfList>,
}

#[derive(Deserialize)]
struct RuleOfList {
    name: String,
    counters: Vec<CounterOfList>,
}

#[derive(Deserialize)]
struct CounterOfList {
    split: BTreeMap<String, Option<String>>,
    spent_usd: Box<RawValue>,
    reserved_usd: Box<RawValue>,
}

fn amount(value: &RawValue) -> Money {
    Money::parse_rounded(value.get(), 0).unwrap_or_else(|_| panic!("{}", value.get()))
}

/// The costs of a row with the owner of each: the model or the provider of its own call.
fn owners<'a>(row: &'a Entry, by: &str) -> Vec<(Option<&'a str>, i128)> {
    let names = row.attribution.as_deref();
    let one = |name: Option<&'a str>| vec![(name, row.cost)];
    match by {
        "end_user" => one(names.and_then(|names| names.end_user.as_deref())),
        "repository" => one(names.and_then(|names| names.repository.as_deref())),
        "branch" => one(names.and_then(|names| names.branch.as_deref())),
        "pull_request" => one(names.and_then(|names| names.pull_request.as_deref())),
        "key" => one(Some(&row.key_id)),
        "tag" => match names.map(|names| &names.tags[..]) {
            None | Some([]) => one(None),
            Some(tags) => tags.iter().map(|tag| (Some(&**tag), row.cost)).collect(),
        },
        "tag:ending" => {
            let mut tags = names.into_iter().flat_map(|names| &names.tags);
            one(tags.find_map(|tag| tag.strip_prefix("ending:")))
        }
        _ => {
            let of = |attempt: &'a gw_store::ledger::Attempt| {
                let name = if by == "model" { &*attempt.model } else { &*attempt.provider };
                (Some(name), attempt.cost.unwrap_or(attempt.known_part))
            };
            let mut all: Vec<_> = row.attempts.iter().map(of).collect();
            let own = if by == "model" { &row.model } else { &row.provider };
            let rest = row.cost - all.iter().map(|(_, cost)| cost).sum::<i128>();
            all.push((Some(&**own), rest));
            all
        }
    }
}

fn sums_of(rows: &[Entry], by: &str) -> Sums {
    let mut sums = Sums::new();
    for (name, cost) in rows.iter().flat_map(|row| owners(row, by)) {
        *sums.entry(name.map(str::to_owned)).or_default() += Money::from_femtos(cost);
    }
    sums.retain(|_, cost| *cost != Money::ZERO);
    sums
}

async fn report(admin: &Client, by: &str) -> (Sums, Money) {
    let text = admin.get(&format!("/admin/v1/usage?by={by}")).await.ok().text();
    let report: Report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let row = |row: &BTreeMap<String, Box<RawValue>>| {
        assert!(!row.contains_key("other"), "all names of {by} are shown");
        let name = serde_json::from_str(row[by].get()).expect("a name");
        (name, amount(&row["cost_usd"]))
    };
    let sums: Sums = report.data.iter().map(row).filter(|(_, cost)| *cost != Money::ZERO).collect();
    (sums, amount(&report.total["cost_usd"]))
}

/// Compares all reports with these rows, which are all of the ledger.
async fn assert_reports(admin: &Client, rows: &[Entry]) {
    let all: Money = rows.iter().map(|row| Money::from_femtos(row.cost)).sum();
    assert!(all > Money::ZERO, "the rows cost something");
    for by in GROUPS {
        let (found, total) = report(admin, by).await;
        let sum: Money = found.values().copied().sum();
        assert_eq!((sum, total), (all, all), "by {by}: {found:?}");
        if !["team", "surface", "session", "day"].contains(&by) {
            assert_eq!(found, sums_of(rows, by), "by {by}");
        }
    }
    let (found, total) = report(admin, "tag").await;
    assert_eq!(
        (found, total),
        (sums_of(rows, "tag"), all),
        "a request counts for each tag, in the total once"
    );
}

/// Compares the rules of [`rules`] with these rows, which are all of the ledger. `asker` has the key of the requests: a gateway that has just
/// started knows a counter once somebody asks for it.
async fn assert_rules(admin: &Client, asker: &Client, rows: &[Entry]) {
    let names = sums_of(rows, "end_user").into_keys().flatten();
    for name in names {
        asker.with_header("x-gateway-user", &name).get("/v1/me").await.ok();
    }
    for ending in sums_of(rows, "tag:ending").into_keys().flatten() {
        asker.with_header("x-gateway-tags", &format!("ending:{ending}")).get("/v1/me").await.ok();
    }
    let text = admin.get("/admin/v1/budgets").await.ok().text();
    let rules: Rules = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let of = |name: &str| rules.data.iter().find(|rule| rule.name == name).expect("the rule");
    let all: Money = rows.iter().map(|row| Money::from_femtos(row.cost)).sum();
    let [counter] = &of("all").counters[..] else { panic!("{text}") };
    assert_eq!(amount(&counter.spent_usd), all, "the rule of all requests");
    for rule in &rules.data {
        for counter in &rule.counters {
            assert_eq!(amount(&counter.reserved_usd), Money::ZERO, "{}: {:?}", rule.name, counter.split);
        }
    }
    let mut wrong = Vec::new();
    for (rule, split) in rules.data.iter().filter_map(|rule| Some((rule, rule.name.strip_prefix("by ")?))) {
        let expected = sums_of(rows, split);
        let counters = rule.counters.iter();
        let found: Sums = counters
            .map(|counter| (counter.split[split].clone(), amount(&counter.spent_usd)))
            .filter(|(_, spent)| *spent != Money::ZERO)
            .collect();
        // A counter of a target is known once a request asks for it.
        let is_known = |name: &Option<String>| !BY_TARGETS.contains(&split) || found.contains_key(name);
        for (name, cost) in expected.iter().filter(|(name, _)| is_known(name)) {
            let spent = found.get(name).copied().unwrap_or_default();
            if spent != *cost {
                wrong.push(json!([split, name, spent.to_string(), cost.to_string()]));
            }
        }
        let unknown: Vec<_> = found.keys().filter(|name| !expected.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{split}: {unknown:?}");
    }
    assert!(wrong.is_empty(), "split, name, the rule's sum and the rows': {:#}", Value::from(wrong));
}
