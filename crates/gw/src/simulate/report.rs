//! The report of a replay: as a table and as JSON.

use gw_command::CommandError;
use gw_command::table::{Align, clean, columns};
use gw_wire::money::Money;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::figures::{Mean, ModelFigures};
use super::replay::{Replay, ServedCount, Sums};

/// The assumptions behind the figures. Each report lists them.
const ASSUMPTIONS: [&str; 6] = [
    "the strategy decides for every request with a choice, even when the client asked for another strategy",
    "token counts, cached tokens included, stay as they were; every model can do what the request asks for, unless its \
     context is too short",
    "simulated costs use the current prices of the catalogue; actual costs are those that were charged",
    "a model takes its mean time in this period, for plain and streamed answers apart, plus the mean time of its failed \
     calls; a model without calls takes the latency of the catalogue",
    "all models are equally busy, no circuit is open, and prompt caches are ignored",
    "each model keeps its speed, although another mix of requests would change it",
];

/// The report as text. `span` holds the first and the last time.
pub(super) fn table(replay: &Replay, span: &[String; 2]) -> String {
    let [since, until] = span;
    let total = replay.total();
    let skipped: u64 = replay.skipped.values().sum();
    let mut text = format!(
        "strategy {} over {} of {} requests, {since} to {until}\n",
        replay.strategy.as_str(),
        total.requests,
        total.requests + skipped,
    );
    if total.requests > 0 {
        text.push('\n');
        text += &days(replay, &total);
        text.push('\n');
        text += &models(replay);
    }
    if skipped > 0 {
        let reasons: Vec<_> =
            replay.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.words())).collect();
        text += &format!("\nskipped: {}\n", reasons.join(", "));
    }
    text += "\nassumptions:\n";
    ASSUMPTIONS.iter().fold(text, |text, line| format!("{text}- {line}\n"))
}

fn days(replay: &Replay, total: &Sums) -> String {
    let header = [
        "DAY",
        "REQUESTS",
        "MOVED",
        "COST USD",
        "WOULD BE",
        "LATENCY MS",
        "WOULD BE",
        "FIRST TOKEN MS",
        "WOULD BE",
        "PICKS FAILING %",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(replay.days.iter().map(|(day, sums)| row(day, sums)));
    rows.push(row("total", total));
    use Align::{Left, Right};
    columns(&rows, &[Left, Right, Right, Right, Right, Right, Right, Right, Right, Right])
}

fn row(name: &str, sums: &Sums) -> Vec<String> {
    let millis = |mean: Mean| mean.value().map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    vec![
        name.to_owned(),
        sums.requests.to_string(),
        sums.moved.to_string(),
        sums.cost_was.to_string(),
        sums.cost_would.to_string(),
        millis(sums.latency_was),
        millis(sums.latency_would),
        millis(sums.first_token_was),
        millis(sums.first_token_would),
        sums.failing.value().map_or_else(|| "-".to_owned(), |value| format!("{value:.2}")),
    ]
}

fn models(replay: &Replay) -> String {
    let header = [
        "MODEL",
        "SERVED",
        "WOULD",
        "CALLS",
        "FAILED %",
        "PLAIN MS",
        "STREAM MS",
        "FIRST TOKEN MS",
        "TOKENS/S",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (id, (ServedCount { was, would }, figures)) in &replay.models {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        rows.push(vec![
            clean(id),
            was.to_string(),
            would.to_string(),
            figures.calls().to_string(),
            number(figures.failed_percent(), 2),
            number(figures.plain.value(), 0),
            number(figures.stream.value(), 0),
            number(figures.first_token(), 0),
            number(figures.speed(), 1),
        ]);
    }
    use Align::{Left, Right};
    columns(&rows, &[Left, Right, Right, Right, Right, Right, Right, Right, Right])
}

/// The sums in JSON. Amounts are written exactly, without a float.
#[derive(Serialize)]
struct SumsObject {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    requests: u64,
    moved: u64,
    cost_usd: Comparison<Box<RawValue>>,
    latency_ms: Comparison<Option<f64>>,
    first_token_ms: Comparison<Option<f64>>,
    failing_percent: Option<f64>,
}

#[derive(Serialize)]
struct Comparison<T> {
    was: T,
    would_be: T,
}

impl SumsObject {
    fn new(day: Option<&str>, sums: &Sums) -> Result<Self, serde_json::Error> {
        let usd = |money: Money| RawValue::from_string(money.to_string());
        let side = |was: Mean, would: Mean| Comparison { was: was.value(), would_be: would.value() };
        Ok(Self {
            day: day.map(str::to_owned),
            requests: sums.requests,
            moved: sums.moved,
            cost_usd: Comparison { was: usd(sums.cost_was)?, would_be: usd(sums.cost_would)? },
            latency_ms: side(sums.latency_was, sums.latency_would),
            first_token_ms: side(sums.first_token_was, sums.first_token_would),
            failing_percent: sums.failing.value(),
        })
    }
}

#[derive(Serialize)]
struct Document<'r> {
    object: &'static str,
    strategy: &'static str,
    since: &'r str,
    until: &'r str,
    days: Vec<SumsObject>,
    total: SumsObject,
    models: Vec<Value>,
    not_judged: Value,
    assumptions: [&'static str; 6],
}

/// The report as JSON. `span` holds the first and the last time.
///
/// # Errors
/// Exit code 1 when the JSON cannot be written.
pub(super) fn json(replay: &Replay, span: &[String; 2]) -> Result<String, CommandError> {
    let written = || {
        let [since, until] = span;
        let days = replay.days.iter().map(|(day, sums)| SumsObject::new(Some(day), sums));
        let document = Document {
            object: "simulation",
            strategy: replay.strategy.as_str(),
            since,
            until,
            days: days.collect::<Result<_, _>>()?,
            total: SumsObject::new(None, &replay.total())?,
            models: replay.models.iter().map(|(id, (share, figures))| model(id, *share, figures)).collect(),
            not_judged: replay
                .skipped
                .iter()
                .map(|(reason, count)| (reason.as_str(), json!(count)))
                .collect(),
            assumptions: ASSUMPTIONS,
        };
        serde_json::to_string_pretty(&document)
    };
    let text = written().map_err(|error: serde_json::Error| CommandError::runtime(error))?;
    Ok(text + "\n")
}

fn model(id: &str, share: ServedCount, figures: &ModelFigures) -> Value {
    json!({
        "model": id,
        "served": share.was,
        "would_serve": share.would,
        "calls": figures.calls(),
        "failed_percent": figures.failed_percent(),
        "plain_ms": figures.plain.value(),
        "stream_ms": figures.stream.value(),
        "first_token_ms": figures.first_token(),
        "tokens_per_second": figures.speed(),
    })
}
