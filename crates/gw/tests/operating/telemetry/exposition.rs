//! `/metrics` shows the metrics of the table, with the type, the unit, the labels and the sentence that stand there.

use std::collections::{BTreeMap, BTreeSet};

use gw_testkit::Answer;
use serde_json::json;

use crate::harness::answers::fallback;
use crate::harness::{ADMIN, METERED, Setup, World, chat, chat_with};
use crate::telemetry::collector::Collector;
use crate::telemetry::table::{METRICS, Metric};

/// A metric as `/metrics` shows it.
#[derive(Default)]
struct Shown {
    kind: String,
    unit: String,
    help: String,
    labels: BTreeSet<String>,
}

fn shown(text: &str) -> BTreeMap<String, Shown> {
    let mut found: BTreeMap<String, Shown> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => {
                // A help text of prometheus-client ends with a full stop that it adds.
                found.entry((*name).to_owned()).or_default().help = help.trim_end_matches('.').to_owned();
            }
            ["#", "TYPE", name, kind] => {
                (*kind).clone_into(&mut found.entry((*name).to_owned()).or_default().kind)
            }
            ["#", "UNIT", name, unit] => {
                (*unit).clone_into(&mut found.entry((*name).to_owned()).or_default().unit)
            }
            ["#", ..] => {}
            _ => {
                let name: String = line.chars().take_while(|c| !matches!(c, '{' | ' ')).collect();
                let family = ["_total", "_bucket", "_sum", "_count", ""].iter().find_map(|end| {
                    name.strip_suffix(end).filter(|family| found.contains_key(*family)).map(str::to_owned)
                });
                let family = family.unwrap_or_else(|| panic!("{line} belongs to a metric"));
                let sample = line.split(" # ").next().unwrap_or_default();
                let labels =
                    sample.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(list, _)| list);
                let names = labels.unwrap_or_default().split("\",").filter_map(|label| label.split_once('='));
                let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
                found.entry(family).or_default().labels.extend(names);
            }
        }
    }
    found
}

/// A gateway that has done a little of everything.
async fn busy(collector: &Collector) -> World {
    let world = Setup {
        routing: "retries = 0",
        extra: format!("[cache]\nenabled = true\n{}", collector.config("")),
        ..Setup::default()
    }
    .start()
    .await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    world.chat_ok(&chat_with("acme/fast", fallback(&["beta/spare"]))).await;
    world.chat_ok(&chat("acme/unpriced")).await;
    let stream = chat_with("acme/fast", json!({ "stream": true }));
    world.client.stream("/v1/chat/completions", &stream).await.rest().await;
    for _ in 0..3 {
        world.client.with_key(METERED).post_json("/v1/chat/completions", &chat("acme/fast")).await;
    }
    collector.wait_for(6).await;
    world
}

#[tokio::test]
async fn every_metric_is_in_the_table_as_it_is_shown() {
    let collector = Collector::http().await;
    let world = busy(&collector).await;
    let text = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let found = shown(&text);
    let mut differences = Vec::new();
    for (name, shown) in &found {
        let Some(row) = METRICS.iter().find(|row| row.name == name) else {
            differences.push(format!("{name} has no row in telemetry/table.rs"));
            continue;
        };
        let Metric { kind, unit, help, .. } = row;
        let expected = (kind.as_str(), *unit, *help);
        let got = (shown.kind.as_str(), shown.unit.as_str(), shown.help.as_str());
        if expected != got {
            differences.push(format!("{name}: {got:?}, the table has {expected:?}"));
        }
        let labels: BTreeSet<_> = row.labels.iter().map(|label| (*label).to_owned()).collect();
        if !shown.labels.is_empty() && shown.labels != labels {
            differences.push(format!("{name}: the labels {:?}, the table has {labels:?}", shown.labels));
        }
    }
    let missing = METRICS.iter().filter(|row| !row.is_rare && !found.contains_key(row.name));
    differences.extend(missing.map(|row| format!("{} is not shown", row.name)));
    assert!(differences.is_empty(), "{}\n{text}", differences.join("\n"));
}
