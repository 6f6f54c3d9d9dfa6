//! The report of a drill: as a table and as JSON.

use std::sync::Arc;

use gw_command::table::{Align, clean, columns};
use serde_json::{Value, json};

use super::case::DrillCase;
use super::client::{ClientView, Outcome};
use super::routes::{Route, Skipped};

/// The result of a drill.
#[derive(Debug)]
pub(super) struct DrillReport {
    /// The drilled routes.
    pub routes: Arc<[Route]>,
    /// The names that were not drilled.
    pub skipped: Vec<Skipped>,
    /// All cases, in the order of routes, providers and faults.
    pub cases: Vec<DrillCase>,
    /// The factor of all timeouts, at most 1.
    pub factor: f64,
}

impl DrillReport {
    /// The number of routes that do not survive every fault.
    #[must_use]
    pub(super) fn lost(&self) -> usize {
        (0..self.routes.len()).filter(|route| !self.survives(*route)).count()
    }

    fn survives(&self, route: usize) -> bool {
        self.of(route).all(DrillCase::survives)
    }

    fn of(&self, route: usize) -> impl Iterator<Item = &DrillCase> {
        self.cases.iter().filter(move |case| case.route == route)
    }

    /// Whether no other provider could serve while this one fails.
    fn is_alone(&self, case: &DrillCase) -> bool {
        let route = self.routes.get(case.route);
        route.is_some_and(|route| route.candidates.iter().all(|other| other.provider == case.provider))
    }

    /// The report as text.
    #[must_use]
    pub(super) fn table(&self) -> String {
        let header = ["ROUTE", "PROVIDER", "FAULT", "PLAIN", "STREAM", ""].map(str::to_owned).to_vec();
        let mut rows = vec![header];
        for case in &self.cases {
            let name = self.routes.get(case.route).map(|route| clean(&route.name));
            rows.push(vec![
                name.unwrap_or_default(),
                clean(&case.provider),
                case.fault.to_string(),
                case.plain.as_ref().map_or_else(|| "-".to_owned(), words),
                case.stream.as_ref().map_or_else(|| "-".to_owned(), words),
                self.verdict(case).to_owned(),
            ]);
        }
        use Align::Left;
        let mut text = columns(&rows, &[Left, Left, Left, Left, Left, Left]);
        text.push('\n');
        for (route, facts) in self.routes.iter().enumerate() {
            text += &self.summary(route, facts);
        }
        for (name, why) in &self.skipped {
            text += &format!("{}: not drilled: {}\n", clean(name), clean(why));
        }
        text + &self.conditions()
    }

    fn verdict(&self, case: &DrillCase) -> &'static str {
        match case {
            case if case.survives() => "survives",
            case if self.is_alone(case) => "LOST: no other candidate",
            _ => "LOST",
        }
    }

    fn summary(&self, route: usize, facts: &Route) -> String {
        let (all, lost) = (self.of(route).count(), self.of(route).filter(|case| !case.survives()).count());
        let name = clean(&facts.name);
        let candidates: Vec<_> = facts.candidates.iter().map(|candidate| clean(&candidate.model)).collect();
        let candidates = candidates.join(", ");
        match lost {
            0 => format!("{name}: survives all {all} faults ({candidates})\n"),
            lost => format!("{name}: LOST in {lost} of {all} faults ({candidates})\n"),
        }
    }

    fn conditions(&self) -> String {
        let timeouts = match self.factor {
            factor if factor >= 1.0 => "timeouts as configured".to_owned(),
            factor => format!("all timeouts shortened to 1/{:.0}", 1.0 / factor),
        };
        format!(
            "\n{timeouts}; a scripted upstream on loopback played every provider; no provider was called and no store was opened\n"
        )
    }

    /// The report as JSON.
    #[must_use]
    pub(super) fn json(&self) -> Value {
        let route = |(at, facts): (usize, &Route)| {
            let candidates: Vec<_> = facts.candidates.iter().map(|candidate| &candidate.model).collect();
            let cases: Vec<Value> = self.of(at).map(|case| self.case(case)).collect();
            json!({
                "route": facts.name,
                "operation": if facts.embeds { "embeddings" } else { "chat" },
                "candidates": candidates,
                "survives": self.survives(at),
                "cases": cases,
            })
        };
        let routes: Vec<Value> = self.routes.iter().enumerate().map(route).collect();
        let skipped = self.skipped.iter().map(|(name, why)| json!({ "route": name, "reason": why }));
        json!({
            "object": "drill",
            "survives": self.lost() == 0,
            "clock_factor": self.factor,
            "routes": routes,
            "not_drilled": skipped.collect::<Vec<_>>(),
        })
    }

    fn case(&self, case: &DrillCase) -> Value {
        json!({
            "provider": &*case.provider,
            "fault": case.fault.as_str(),
            "other_candidates": !self.is_alone(case),
            "plain": case.plain.as_ref().map(seen),
            "stream": case.stream.as_ref().map(seen),
            "survives": case.survives(),
        })
    }
}

fn words(seen: &ClientView) -> String {
    let took = seen.duration.as_millis();
    match &seen.outcome {
        Outcome::Complete => format!("{} in {took} ms", clean(&seen.model)),
        Outcome::ErrorEvent(code) => format!("error event in mid-stream: {}", clean(code)),
        Outcome::Error(200, code) => format!("error event: {} after {took} ms", clean(code)),
        Outcome::Error(status, code) => format!("{status} {} after {took} ms", clean(code)),
        Outcome::Truncated => "TRUNCATED without an error".to_owned(),
        Outcome::Wrong => "a WRONG answer".to_owned(),
        Outcome::NoEnd => format!("NO END in {took} ms"),
    }
}

fn seen(seen: &ClientView) -> Value {
    let (outcome, status, code) = match &seen.outcome {
        Outcome::Complete => ("whole", Some(200), None),
        Outcome::ErrorEvent(code) => ("told_mid_stream", Some(200), Some(code)),
        Outcome::Error(status, code) => ("error", Some(*status), Some(code)),
        Outcome::Truncated => ("silently_cut", Some(200), None),
        Outcome::Wrong => ("wrong", Some(200), None),
        Outcome::NoEnd => ("no_end", None, None),
    };
    let millis = u64::try_from(seen.duration.as_millis()).unwrap_or(u64::MAX);
    json!({ "outcome": outcome, "status": status, "code": code, "model": seen.model,
            "attempts": seen.attempts, "took_ms": millis })
}
