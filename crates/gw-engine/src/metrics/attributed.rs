//! Cost by end user, tag, repository, branch and pull request, for a bounded number of names.

use std::collections::HashMap;

use gw_wire::attribution::{Attribution, Dimension};
use gw_wire::money::Money;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::exact_cost::{CostUsd, ExactCost};
use super::registration::registered;

/// The most names of a kind. The first ones that cost something have series of their own.
const MAX_NAMES: usize = 100;
/// The series of all other names.
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    kind: &'static str,
    name: String,
}

type NameCost = Counter<CostUsd, ExactCost>;

/// The costs of a kind by name.
type Costs = HashMap<Box<str>, NameCost>;

/// The costs of names.
#[derive(Debug)]
pub(super) struct AttributedCost {
    family: Family<NameLabels, NameCost>,
    known: Mutex<[Costs; Dimension::ALL.len()]>,
}

impl AttributedCost {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Cost in USD by end user, tag, repository, branch and pull request: the first 100 names of a kind, and all others";
        Self { family: registered(registry, "gateway_attributed_cost_usd", help), known: Mutex::default() }
    }

    /// Adds the cost of a request to each of its names.
    pub(super) fn add(&self, attribution: &Attribution, cost: Money) {
        let mut known = self.known.lock();
        for (dimension, costs) in Dimension::ALL.into_iter().zip(known.iter_mut()) {
            for (_, name) in attribution.names().filter(|(kind, _)| *kind == dimension) {
                self.counter(dimension, costs, name).inc_by(CostUsd(cost));
            }
        }
    }

    fn counter(&self, dimension: Dimension, costs: &mut Costs, name: &str) -> NameCost {
        if let Some(cost) = costs.get(name) {
            return cost.clone();
        }
        let has_room = costs.len() < MAX_NAMES;
        let shown = if has_room { name } else { OTHER };
        let labels = NameLabels { kind: dimension.name(), name: shown.to_owned() };
        let cost = self.family.get_or_create(&labels).clone();
        if has_room {
            costs.insert(name.into(), cost.clone());
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_hundred_names_have_series_and_all_others_share_one() {
        let mut registry = Registry::default();
        let costs = AttributedCost::new(&mut registry);
        for number in 0..1_000 {
            let attribution = Attribution {
                end_user: Some(format!("u{number}").into()),
                tags: vec!["a".into(), "b".into()],
                ..Attribution::default()
            };
            costs.add(&attribution, Money::from_femtos(1_000_000_000_000_000));
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!(lines("kind=\"end_user\""), 101, "{text}");
        for (kind, name, cost) in
            [("end_user", "u0", "1.0"), ("end_user", "other", "900.0"), ("tag", "b", "1000.0")]
        {
            let line = format!("gateway_attributed_cost_usd_total{{kind=\"{kind}\",name=\"{name}\"}} {cost}");
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}
