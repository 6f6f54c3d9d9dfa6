//! The watcher: reads the events of requests, and looks at the state of the gateway.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use gw_engine::limit_use::{SubjectKind, SubjectUse};
use gw_engine::occurrences::Occurrence;
use gw_engine::{Caller, Engine};
use gw_wire::calendar::unix_seconds;
use gw_wire::money::Money;
use serde_json::{Map, Value};
use tokio::sync::mpsc::Receiver;
use tokio::time::MissedTickBehavior;

use crate::alerts::Alerts;
use crate::conditions::Conditions;
use crate::event::{BudgetKind, BudgetSpending};
use crate::looks;
use crate::trigger::{PRICE_UNKNOWN, SESSION_STOPPED};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// The looks at a budget after a charge: Redis hears of a charge a moment later.
const BUDGET_LOOKS: u8 = 4;
/// The looks of the loop between two looks at providers, at all budgets, and at dates.
const PROVIDERS_EVERY: u32 = 4;
const BUDGETS_EVERY: u32 = 240;
const DATES_EVERY: u32 = 2_400;
/// The most callers that are looked at.
const MAX_CALLERS: usize = 4_096;
/// The most keys and the most teams of a look at all budgets.
const MAX_SUBJECTS: usize = 1_000;

/// A caller whose budgets were charged, or refused a request.
struct Touched {
    caller: Caller,
    looks_left: u8,
    /// The subjects that refused a request.
    refused: Vec<SubjectKind>,
}

/// The keys and the counters of rules with events since the last look.
#[derive(Default)]
struct Happened {
    /// By the id of the key.
    touched: HashMap<Arc<str>, Touched>,
    /// The counters of rules that refused a request, by their ids.
    refused_counters: HashSet<String>,
}

/// Watches for as long as the program runs.
pub async fn run(alerts: Alerts, engine: Arc<Engine>, conditions: Arc<dyn Conditions>) {
    let Some(mut events) = engine.occurrences() else { return };
    let mut happened = Happened::default();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut looks, mut watches) = (0_u32, false);
    loop {
        ticks.tick().await;
        let is_watching = !alerts.is_empty();
        engine.watch_occurrences(is_watching);
        if !is_watching {
            watches = false;
            continue;
        }
        // New alerts learn the state at once.
        looks = if watches { looks.wrapping_add(1) } else { 0 };
        watches = true;
        read(&alerts, &mut events, &mut happened).await;
        let Happened { touched, refused_counters } = &mut happened;
        if !touched.is_empty() || !refused_counters.is_empty() {
            look_at_rules(&alerts, &engine, refused_counters).await;
        }
        look_at(&alerts, &engine, touched).await;
        if looks.is_multiple_of(BUDGETS_EVERY) {
            look_at_all(&alerts, &engine).await;
            look_at_rules(&alerts, &engine, refused_counters).await;
        }
        if looks.is_multiple_of(PROVIDERS_EVERY) {
            looks::at_providers(&alerts, &engine).await;
            looks::at_the_ledger(&alerts, &*conditions).await;
        }
        if looks.is_multiple_of(DATES_EVERY) {
            looks::at_dates(&alerts, &engine, &*conditions).await;
            looks::at_days(&alerts, alerts.store()).await;
        }
    }
}

/// Reads the events that wait.
async fn read(alerts: &Alerts, events: &mut Receiver<Occurrence>, happened: &mut Happened) {
    let Happened { touched, refused_counters } = happened;
    for _ in 0..MAX_CALLERS {
        let Ok(event) = events.try_recv() else { return };
        match event {
            Occurrence::Charged(caller) => touch(touched, caller, None),
            Occurrence::OverBudget(caller, kind) => touch(touched, caller, Some(kind)),
            Occurrence::OverRule(counter) => {
                if refused_counters.len() < MAX_SUBJECTS {
                    refused_counters.insert(counter);
                }
            }
            Occurrence::Unpriced(model) => alerts.tell(PRICE_UNKNOWN, "model", &model).await,
            Occurrence::SessionStopped(session) => alerts.tell(SESSION_STOPPED, "session", &session).await,
        }
    }
}

fn touch(touched: &mut HashMap<Arc<str>, Touched>, caller: Caller, refused: Option<SubjectKind>) {
    // A caller that finds no room is seen by the look at all budgets, or with its next request.
    if touched.len() >= MAX_CALLERS && !touched.contains_key(caller.key_id()) {
        return;
    }
    let id = Arc::clone(caller.key_id());
    let entry = touched.entry(id).or_insert_with(|| Touched {
        caller: caller.clone(),
        looks_left: BUDGET_LOOKS,
        refused: Vec::new(),
    });
    (entry.caller, entry.looks_left) = (caller, BUDGET_LOOKS);
    entry.refused.extend(refused.filter(|kind| !entry.refused.contains(kind)));
}

/// Looks at the budgets that were charged lately.
async fn look_at(alerts: &Alerts, engine: &Engine, touched: &mut HashMap<Arc<str>, Touched>) {
    for Touched { caller, looks_left, refused } in touched.values_mut() {
        *looks_left = looks_left.saturating_sub(1);
        let Some(uses) = engine.limit_use(caller).await else { continue };
        for used in uses {
            let name = match used.kind {
                SubjectKind::Key => caller.key_name().to_string(),
                SubjectKind::Team => used.id.clone(),
                // A caller's own limits are those of its key and its team.
                SubjectKind::Rule => continue,
            };
            if let Some(spending) = spending(name, &used, refused.contains(&used.kind)) {
                alerts.tell_budget(&spending).await;
            }
        }
    }
    touched.retain(|_, entry| entry.looks_left > 0);
}

/// Looks at the budgets of rules. Takes the counters that refused a request out of the set when it has told of them.
async fn look_at_rules(alerts: &Alerts, engine: &Engine, refused: &mut HashSet<String>) {
    for found in engine.rule_budgets(MAX_SUBJECTS).await {
        let is_refused = refused.contains(&found.used.id);
        let Some(mut spending) = spending(found.name, &found.used, is_refused) else { continue };
        refused.remove(&found.used.id);
        let split = found.split.into_iter().map(|(by, value)| (by, value.map_or(Value::Null, Value::from)));
        spending.split = Some(split.collect::<Map<_, _>>()).filter(|split| !split.is_empty());
        alerts.tell_budget(&spending).await;
    }
}

/// Looks at the budgets of the configured keys and of the teams: a process may have died between a charge and its event.
async fn look_at_all(alerts: &Alerts, engine: &Engine) {
    for found in engine.limits_in_use(MAX_SUBJECTS).await.unwrap_or_default() {
        if let Some(spending) = spending(found.name.to_string(), &found.used, false) {
            alerts.tell_budget(&spending).await;
        }
    }
}

/// The spending of a key's or a team's budget. None: it has none, or the spending is not known now.
fn spending(name: String, used: &SubjectUse, is_refused: bool) -> Option<BudgetSpending> {
    let (budget, spent) = used.limits.budget.zip(used.budget)?;
    let (start, end) = budget.period.around(unix_seconds());
    let is_rolling = budget.period.step().is_some();
    Some(BudgetSpending {
        kind: match used.kind {
            SubjectKind::Key => BudgetKind::Key,
            SubjectKind::Team => BudgetKind::Team,
            SubjectKind::Rule => BudgetKind::Rule,
        },
        name,
        id: used.id.clone(),
        split: None,
        spend: Money::from_femtos(spent.spent_femtos),
        budget: Money::from_femtos(budget.femtos()),
        period: budget.period.as_str(),
        began_at: (!is_rolling && end != i64::MAX).then_some(start),
        resets_at: (end != i64::MAX).then_some(end),
        rolling_seconds: is_rolling.then(|| end.saturating_sub(start)),
        is_refused,
    })
}
