//! Decisions over time: an hour of traffic on a virtual clock, and `docs/routing.md`, which shows the results.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "tests may panic")]

mod few_allocations;
mod hedged;
mod hour;
mod page;
mod world;
