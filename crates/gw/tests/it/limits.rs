//! Rate limits, budgets and overload.

mod budget_cuts;
mod budget_periods;
mod budgets;
mod overload;
