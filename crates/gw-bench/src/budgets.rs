//! The budgets of instructions: a file that is compared with the counts of a run, and written anew by `--record`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::{Error, Result};

/// A count this much below its budget asks for a lower budget.
const LOWER_PERCENT: f64 = 3.0;
/// Percent by which all threads together may exceed a budget. Besides the requests' own work they hold timers, wake-ups and
/// transactions of the writer, and their number depends on the machine.
const TOTAL_TOLERANCE_PERCENT: f64 = 10.0;
/// Percent by which the connection's task may grow without a reason.
const PATH_GROWTH_PERCENT: f64 = 1.0;
/// The function whose count is the work of requests alone: the task of a client's connection with all that it calls.
const PATH: &str = "gw_server::connection::run::{{closure}}";
/// The smallest growth of a function that is reported, as a part of the budget.
const GROWTH_PERCENT: f64 = 0.2;

/// The file of budgets.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budgets {
    /// The compiler and the valgrind that the figures come from.
    tools: String,
    #[serde(default)]
    budget: Vec<Budget>,
}

/// The instructions that a request of one kind may need.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    kind: String,
    /// Of all threads.
    instructions: u64,
    /// Of the connection's task with all that it calls.
    path: u64,
    /// Why it is as large as it is: a line for each time that it was raised.
    reason: String,
}

impl Budget {
    /// Whether the counts are higher by more than runs differ.
    fn is_too_low(&self, counted: u64, counted_path: u64) -> bool {
        above(counted_path, self.path) > PATH_GROWTH_PERCENT
            || above(counted, self.instructions) > TOTAL_TOLERANCE_PERCENT
    }

    /// Sets the counts, and adds the reason to the earlier ones.
    fn raise(&mut self, counted: u64, counted_path: u64, reason: &str) {
        (self.instructions, self.path) = (counted, counted_path);
        self.reason.push('\n');
        self.reason.push_str(reason);
    }
}

/// Functions with their instructions of a request, by kind of request.
pub(crate) type Functions = BTreeMap<String, Vec<(String, u64)>>;

/// The counts of a run.
pub(crate) struct Counted {
    /// Kinds of requests with their instructions, in the order of the run.
    pub(crate) kinds: Vec<(&'static str, u64)>,
    pub(crate) functions: Functions,
}

impl Counted {
    fn functions_of(&self, kind: &str) -> &[(String, u64)] {
        self.functions.get(kind).map_or(&[], Vec::as_slice)
    }
}

/// The instructions of the connection's task, by a list of functions with all that they call.
pub(crate) fn path_of(functions: &[(String, u64)]) -> u64 {
    functions.iter().find(|(name, _)| name == PATH).map_or(0, |(_, count)| *count)
}

impl Budgets {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::read(path, error))?;
        toml::from_str(&text).map_err(|error| Error::Budgets(format!("{}: {error}", path.display())))
    }

    /// The most instructions that the connection's task may need in a request of this kind.
    pub(crate) fn most_of_path(&self, kind: &str, tolerance_percent: f64) -> Option<u64> {
        let budget = self.budget.iter().find(|budget| budget.kind == kind)?;
        Some((budget.path as f64 * (1.0 + tolerance_percent / 100.0)) as u64)
    }

    /// Compares a run with the budgets. The error lists the kinds that are above their budgets with the functions that grew.
    /// The connection's task may exceed its budget by the tolerance.
    pub(crate) fn check(&self, path: &Path, run: &Counted, tolerance_percent: f64) -> Result<String> {
        let before = read_functions(&functions_path(path));
        let (mut report, mut exceeded) = (String::new(), String::new());
        for &(kind, counted) in &run.kinds {
            let Some(budget) = self.budget.iter().find(|budget| budget.kind == kind) else {
                let _ = writeln!(exceeded, "{kind}: {counted} instructions, and no budget");
                continue;
            };
            let counted_path = path_of(run.functions_of(kind));
            let (total_percent, path_percent) =
                (above(counted, budget.instructions), above(counted_path, budget.path));
            let line = format!(
                "{kind}: {counted} instructions, {total_percent:+.2} % of the budget {}; of them the connection's task {counted_path}, \
                 {path_percent:+.2} % of {}",
                budget.instructions, budget.path
            );
            if total_percent > TOTAL_TOLERANCE_PERCENT
                || path_percent > tolerance_percent
                || counted_path == 0
            {
                let known = before.get(kind).map_or(&[][..], Vec::as_slice);
                let _ =
                    write!(exceeded, "{line}\n{}", grown(known, run.functions_of(kind), budget.instructions));
            } else if path_percent < -LOWER_PERCENT {
                let _ = writeln!(report, "{line}: lower the budget");
            } else {
                let _ = writeln!(report, "{line}");
            }
        }
        if exceeded.is_empty() {
            return Ok(report);
        }
        let tools = tools();
        if tools != self.tools {
            let _ = writeln!(exceeded, "The budgets come from {}; this run has {tools}.", self.tools);
        }
        Err(Error::Budgets(format!(
            "above the budgets of {}:\n{exceeded}\nwithin:\n{report}",
            path.display()
        )))
    }

    /// Writes the counts of a run as the new budgets. A budget that is too low needs a reason; no other one is raised, so
    /// that budgets do not creep.
    pub(crate) fn record(mut self, path: &Path, run: &Counted, reason: Option<&str>) -> Result<()> {
        let mut functions = read_functions(&functions_path(path));
        for &(kind, counted) in &run.kinds {
            let counted_path = path_of(run.functions_of(kind));
            let is_written = match self.budget.iter_mut().find(|budget| budget.kind == kind) {
                Some(budget) => {
                    if budget.is_too_low(counted, counted_path) {
                        budget.raise(counted, counted_path, reason.ok_or_else(|| no_reason(kind, counted))?);
                    } else {
                        budget.instructions = budget.instructions.min(counted);
                        budget.path = budget.path.min(counted_path);
                    }
                    budget.path == counted_path
                }
                None => {
                    self.budget.push(Budget {
                        kind: kind.to_owned(),
                        instructions: counted,
                        path: counted_path,
                        reason: reason.ok_or_else(|| no_reason(kind, counted))?.to_owned(),
                    });
                    true
                }
            };
            // The list belongs to the budget, and shows which functions have grown since.
            if let Some(list) = run.functions.get(kind).filter(|_| is_written) {
                functions.insert(kind.to_owned(), list.clone());
            }
        }
        self.tools = tools();
        write(path, &self.text())?;
        write(&functions_path(path), &functions_text(&functions))
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# The instructions that a request of each kind may need (profile `release`, all threads, counted by callgrind).\n\
             # `path` are those of the connection's task with all that it calls. They differ by less than 1 % from run to run.\n\
             # `./test budgets` compares them, and `RECORD_BUDGETS=REASON ./test budgets` writes them: docs/performance.md.\n",
        );
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let _ = writeln!(text, "tools = {}", quoted(&self.tools));
        for Budget { kind, instructions, path, reason } in &self.budget {
            let (kind, reason) = (quoted(kind), quoted(reason));
            let _ = write!(
                text,
                "\n[[budget]]\nkind = {kind}\ninstructions = {instructions}\npath = {path}\nreason = {reason}\n"
            );
        }
        text
    }
}

/// By how many percent a count is above a budget.
fn above(counted: u64, budget: u64) -> f64 {
    (counted as f64 / budget.max(1) as f64 - 1.0) * 100.0
}

fn no_reason(kind: &str, counted: u64) -> Error {
    Error::Budgets(format!("{kind} needs {counted} instructions: a new or higher budget needs --reason"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::write(path, error))
}

/// The functions that need more than before, with the largest growth first.
fn grown(before: &[(String, u64)], now: &[(String, u64)], budget: u64) -> String {
    let mut grown: Vec<(u64, u64, &str)> = Vec::new();
    for (name, count) in now {
        let known = before.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        if count.saturating_sub(known) as f64 * 100.0 > budget as f64 * GROWTH_PERCENT {
            grown.push((*count, known, name));
        }
    }
    grown.sort_by_key(|(count, known, _)| std::cmp::Reverse(count.saturating_sub(*known)));
    let mut text = String::new();
    for (count, known, name) in grown {
        let _ = writeln!(text, "  {known:>9} -> {count:>9}  {name}");
    }
    text
}

/// The list of functions lies beside the budgets: a line `KIND INSTRUCTIONS FUNCTION` for each.
fn functions_path(budgets: &Path) -> PathBuf {
    budgets.with_extension("functions.txt")
}

fn read_functions(path: &Path) -> Functions {
    let mut functions = Functions::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ' ');
        let (Some(kind), Some(count), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let Ok(count) = count.parse() else { continue };
        functions.entry(kind.to_owned()).or_default().push((name.to_owned(), count));
    }
    functions
}

fn functions_text(functions: &Functions) -> String {
    let mut text = String::new();
    for (kind, list) in functions {
        for (name, count) in list {
            let _ = writeln!(text, "{kind} {count} {name}");
        }
    }
    text
}

/// The versions that the counts depend on.
fn tools() -> String {
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.unwrap_or_else(|_| format!("no {program}"))
    };
    format!("{}, {}", version("rustc"), version("valgrind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(chat: u64, path: u64) -> Counted {
        let functions = vec![(PATH.to_owned(), path), ("gw::b".to_owned(), 40)];
        Counted { kinds: vec![("chat", chat)], functions: [("chat".to_owned(), functions)].into() }
    }

    #[test]
    fn a_count_above_its_budget_fails_with_the_functions_that_grew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budgets.toml");
        let refused = Budgets::default().record(&path, &run(1_000, 500), None).unwrap_err();
        assert!(refused.to_string().contains("--reason"), "{refused}");
        Budgets::default().record(&path, &run(1_000, 500), Some("the first")).unwrap();

        let budgets = Budgets::read(&path).unwrap();
        assert!(budgets.check(&path, &run(1_090, 504), 1.0).unwrap().contains("+0.80 %"));
        assert!(budgets.check(&path, &run(1_000, 480), 1.0).unwrap().contains("lower the budget"));
        let failed = budgets.check(&path, &run(1_000, 506), 1.0).unwrap_err().to_string();
        assert!(failed.contains("500 ->       506  gw_server") && !failed.contains("gw::b"), "{failed}");
        assert!(budgets.check(&path, &run(1_110, 500), 1.0).is_err(), "another thread grew");
        assert!(budgets.check(&path, &run(1_000, 0), 1.0).is_err(), "the task's function has another name");

        budgets.record(&path, &run(900, 400), None).unwrap();
        let lower = Budgets::read(&path).unwrap();
        assert!(lower.check(&path, &run(900, 500), 1.0).is_err());
        assert!(lower.record(&path, &run(900, 500), None).is_err());

        let refused = Budgets::read(&path).unwrap().record(&path, &run(1_000, 400), None).unwrap_err();
        assert!(
            refused.to_string().contains("chat needs 1000 instructions"),
            "another thread grew: {refused}"
        );
        assert_eq!(Budgets::read(&path).unwrap().budget[0].instructions, 900, "nothing is written");
        Budgets::read(&path).unwrap().record(&path, &run(1_000, 400), Some("a thread more")).unwrap();
        assert_eq!(Budgets::read(&path).unwrap().budget[0].reason, "the first\na thread more");
    }

    #[test]
    fn budgets_do_not_creep() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budgets.toml");
        Budgets::default().record(&path, &run(1_000, 1_000), Some("the first")).unwrap();
        for reason in [None, Some("for another kind")] {
            Budgets::read(&path).unwrap().record(&path, &run(1_090, 1_009), reason).unwrap();
            let budget = &Budgets::read(&path).unwrap().budget[0];
            let figures = (budget.instructions, budget.path, budget.reason.as_str());
            assert_eq!(figures, (1_000, 1_000, "the first"));
            assert_eq!(read_functions(&functions_path(&path))["chat"][0].1, 1_000, "the list of the budget");
        }
    }
}
