//! The catalogue as a whole: building, names, lists, entries, comparisons.

mod agents;
mod answers;
mod building;
mod comparing;
mod names;

use std::collections::BTreeMap;

use gw_providers::settings::Api;
use gw_wire::money::Price;
use gw_wire::usage::Usage;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::error::Error;
use crate::settings::{AliasSettings, PricingSettings};

const SMALL: &str = r#"[
 {"id":"acme/fast","upstream_model":"fast-2026-01","name":"Acme Fast","description":"Quick answers.",
  "category":["chat","vision"],"context_length":128000,"max_output_tokens":16384,
  "modalities":{"input":["text","image"],"output":["text"]},"features":["streaming","function_calling","vision"],
  "license":"proprietary","license_source":"the terms","open_weights":false,"release_date":"2026-01-02",
  "pricing":{"official_input_per_m":0.15,"official_output_per_m":0.60,"cached_input_per_m":0.075,
   "cache_write_per_m":0.19,"tiers":[{"above_input_tokens":1000,"official_input_per_m":0.3}],"currency":"USD",
   "as_of":"2026-11-20","source":"price page"},
  "quality_scores":{"overall":60.5,"code":58.0,"math":62.0,"reasoning":55.0,"benchmark":"B","source":"a table"}},
 {"id":"acme/embed","category":["embedding"],"modalities":{"input":["text"],"output":["embedding"]},"features":[],
  "pricing":{"official_input_per_m":0.02,"official_output_per_m":0.0},"embedding_dimensions":1536},
 {"id":"beta/fast","name":"Beta Fast","category":["chat"],"context_length":200000,"features":["streaming"],
  "pricing":{"official_input_per_m":0.1,"official_output_per_m":0.2},"quality_scores":{"overall":60.5}},
 {"id":"beta/lab/deep:1","category":["chat","reasoning"],"quality_scores":{"overall":null,"code":99.0}},
 {"id":"gone/x","pricing":{"official_input_per_m":1}}
]"#;

fn provider(name: &str) -> ProviderFacts<'_> {
    ProviderFacts {
        name,
        api: Api::OPENAI,
        price_multiplier: Price::from_nanos(1_000_000_000),
        discovers: false,
    }
}

fn entry(id: &str) -> ModelSettings {
    ModelSettings { id: id.into(), ..ModelSettings::default() }
}

fn aliases(pairs: &[(&str, &str)]) -> Aliases {
    let alias = |targets: &str| AliasSettings {
        targets: targets.split(' ').map(str::to_owned).collect(),
        ..AliasSettings::default()
    };
    pairs.iter().map(|(name, targets)| ((*name).to_owned(), alias(targets))).collect()
}

fn build(models: &[ModelSettings], names: &[(&str, &str)]) -> std::result::Result<Catalog, Vec<String>> {
    Catalog::build(&[SMALL], models, &aliases(names), &[provider("acme"), provider("beta")], &[])
        .map_err(messages)
}

fn messages(problems: Vec<CatalogProblem>) -> Vec<String> {
    problems.into_iter().map(|problem| problem.message).collect()
}

fn small() -> Catalog {
    build(&[], &[("gpt", "acme/fast"), ("beta-lab", "lab/deep:1"), ("g", "gpt")]).unwrap()
}

fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog.models().iter().map(|model| &*model.id).collect()
}

fn read(body: Result<Bytes>) -> Value {
    serde_json::from_slice(&body.unwrap()).unwrap()
}

fn listed(catalog: &Catalog, query: &str) -> Vec<String> {
    let page = read(catalog.list(query, None));
    page["data"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

fn refusal(body: Result<Bytes>) -> (u16, String) {
    let error: Error = body.unwrap_err();
    (error.status(), error.code().to_owned())
}
