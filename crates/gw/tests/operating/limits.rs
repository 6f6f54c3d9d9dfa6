//! Rate limits, budgets and overload.

mod budget_changes;
mod budget_cuts;
mod budget_periods;
pub(crate) mod budgets;
mod dry_runs;
mod further_attempts;
mod further_parts;
mod overload;
mod rules;
mod sent_text;
mod session_guards;
mod sessions;
