//! The names that clients use: LiteLLM's model groups with their fallbacks become aliases.

use super::super::draft::Members;
use super::super::yaml::{Data, SourceNode};
use super::Import;

/// The deployment of a name.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) provider: String,
    pub(super) upstream: String,
    /// The members of its `[[models]]` entry.
    pub(super) members: Members,
    pub(super) order: u32,
}

/// The names, and the rules that connect them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The ids of each name, with their order.
    names: Vec<(String, Vec<(u32, String)>)>,
    /// The name, its fallbacks, the key and the node that say so.
    fallbacks: Vec<(String, Vec<String>, String, SourceNode)>,
    /// `model_group_alias`: a name and the name that it stands for.
    same: Vec<(String, String, String, SourceNode)>,
    pub(super) strategy: Option<(String, String, SourceNode)>,
}

impl Import {
    /// Adds a deployment to its name.
    pub(super) fn add_target(&mut self, entry: &SourceNode, path: &str, name: String, target: Target) {
        let Target { provider, upstream, members, order } = target;
        let mut id = self.draft.model(&provider, &upstream, &members);
        if id == name && self.groups.names.iter().any(|(known, _)| *known == name) {
            // An alias cannot name itself among several models.
            let mut members = members;
            members.insert("upstream_model".to_owned(), upstream.as_str().into());
            id = self.draft.model(&provider, &format!("{upstream}-deployment"), &members);
        }
        let key = format!("{path}.model_name");
        let node = entry.get("model_name").unwrap_or(entry);
        let place = self.groups.names.iter().position(|(known, _)| *known == name);
        match place.and_then(|place| self.groups.names.get_mut(place)) {
            Some((_, targets)) if targets.iter().any(|(_, known)| *known == id) => {
                let note =
                    format!("another entry has the same address, key and model; the alias has '{id}' once");
                self.report.approximate(key, node, note);
            }
            Some((_, targets)) => {
                targets.push((order, id.clone()));
                self.report.exact(key, node, format!("a target of the alias '{name}': {id}"));
            }
            None => {
                self.report.exact(key, node, format!("the alias '{name}' of {id}"));
                self.groups.names.push((name, vec![(order, id)]));
            }
        }
    }

    /// `fallbacks` and `context_window_fallbacks`: a list of maps from a name to its fallbacks.
    pub(super) fn fallbacks(&mut self, key: &str, node: &SourceNode) {
        for map in node.list() {
            for (name, list) in map.pairs() {
                let names = list.list().iter().filter_map(SourceNode::text).collect();
                let key = format!("{key}.{name}");
                self.groups.fallbacks.push((name.clone(), names, key, list.clone()));
            }
        }
    }

    /// `default_fallbacks`: a list of names for every name.
    pub(super) fn default_fallbacks(&mut self, key: &str, node: &SourceNode) {
        let names = node.list().iter().filter_map(SourceNode::text).collect();
        self.groups.fallbacks.push(("*".to_owned(), names, key.to_owned(), node.clone()));
    }

    /// `model_group_alias` and `model_alias_map`.
    pub(super) fn same_names(&mut self, key: &str, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let target = match &value.data {
                Data::Map(_) => value.get("model").and_then(SourceNode::text),
                _ => value.text(),
            };
            match target {
                Some(target) => {
                    self.groups.same.push((name.clone(), target, format!("{key}.{name}"), value.clone()));
                }
                None => self.report.ignored(format!("{key}.{name}"), value, "it names no model"),
            }
        }
    }

    /// Writes the aliases, after all sections are read.
    pub(super) fn compose_groups(&mut self) {
        let mut groups = std::mem::take(&mut self.groups);
        for (_, targets) in &mut groups.names {
            targets.sort_by_key(|(order, _)| *order);
        }
        let is_shared = groups.names.iter().any(|(_, targets)| targets.len() > 1);
        let strategy = self.strategy(&groups, is_shared);
        let primary: Vec<(String, Vec<String>)> = groups
            .names
            .iter()
            .map(|(name, targets)| (name.clone(), targets.iter().map(|(_, id)| id.clone()).collect()))
            .collect();
        let mut all = primary.clone();
        for (name, fallbacks, key, node) in &groups.fallbacks {
            self.add_fallbacks(&primary, &mut all, (name, fallbacks), (key, node), strategy);
        }
        for (name, target, key, node) in &groups.same {
            match all.iter().find(|(known, _)| known == target).cloned() {
                Some((_, ids)) if all.iter().all(|(known, _)| known != name) => {
                    all.push((name.clone(), ids));
                    self.report.exact(key, node, format!("the alias '{name}'"));
                }
                Some(_) => self.report.ignored(key, node, "a model_name has this name already"),
                None => self.report.ignored(key, node, format!("no imported model has the name '{target}'")),
            }
        }
        // A name that is the id of its only model needs no alias.
        all.retain(|(name, ids)| ids.as_slice() != [name.clone()]);
        self.draft.aliases = all;
    }

    /// Chooses the strategy. None: each name has one deployment, so the order of the aliases decides.
    fn strategy(&mut self, groups: &Groups, is_shared: bool) -> Option<&'static str> {
        let written = groups.strategy.as_ref().map_or("simple-shuffle", |(name, ..)| name.as_str());
        let (strategy, note) = match written {
            "simple-shuffle" => {
                ("round_robin", "each model in turn by its weight, instead of a random choice")
            }
            "least-busy" => ("least_busy", "the fewest requests in flight"),
            "latency-based-routing" => ("fastest", "the shortest time to the first token"),
            "cost-based-routing" => ("cheapest", "the lowest price of this request"),
            "usage-based-routing" | "usage-based-routing-v2" => {
                ("least_busy", "the fewest requests in flight, instead of the fewest tokens in a minute")
            }
            _ => ("round_robin", "the gateway does not know this strategy"),
        };
        if let Some((_, key, node)) = &groups.strategy {
            if is_shared {
                self.report.approximate(key, node, format!("routing.strategy = \"{strategy}\": {note}"));
            } else {
                let note =
                    "no name has several deployments, so the order of the fallbacks is the only choice";
                self.report.approximate(key, node, note);
            }
        }
        if !is_shared {
            return None;
        }
        self.draft.set("routing", "strategy", strategy.into());
        Some(strategy)
    }

    /// Adds fallbacks to a name, or to all names for `*`.
    fn add_fallbacks(
        &mut self,
        primary: &[(String, Vec<String>)],
        all: &mut [(String, Vec<String>)],
        (name, fallbacks): (&str, &[String]),
        (key, node): (&str, &SourceNode),
        strategy: Option<&str>,
    ) {
        let found = |fallback: &String| primary.iter().find(|(known, _)| known == fallback);
        let ids: Vec<String> =
            fallbacks.iter().filter_map(found).flat_map(|(_, ids)| ids.iter().cloned()).collect();
        let missing: Vec<&str> =
            fallbacks.iter().filter(|name| found(name).is_none()).map(String::as_str).collect();
        let ids: Vec<String> = match strategy {
            Some("round_robin") => ids.iter().map(|id| self.draft.spare(id)).collect(),
            _ => ids,
        };
        let mut is_known = false;
        for (known, targets) in all.iter_mut().filter(|(known, _)| name == "*" || known == name) {
            is_known = true;
            for id in &ids {
                if !targets.contains(id)
                    && id != known
                    && id
                        .strip_suffix("-fallback")
                        .is_none_or(|own| !targets.iter().any(|target| target == own))
                {
                    targets.push(id.clone());
                }
            }
        }
        let missing = if missing.is_empty() {
            String::new()
        } else {
            format!("; not imported: {}", missing.join(", "))
        };
        if !is_known || ids.is_empty() {
            self.report.ignored(key, node, format!("the name or its fallbacks are not imported{missing}"));
            return;
        }
        match strategy {
            None if missing.is_empty() => {
                self.report.exact(key, node, "the last targets of the alias, in this order")
            }
            None => self.report.approximate(key, node, format!("the last targets of the alias{missing}")),
            Some("round_robin") => {
                let note = "models with weight = 0, which are used when the others fail, in turn instead of in order";
                self.report.approximate(key, node, format!("{note}{missing}"));
            }
            Some(strategy) => {
                let note = format!("targets of the alias; the strategy '{strategy}' may choose them first");
                self.report.approximate(key, node, format!("{note}{missing}"));
            }
        }
    }
}
