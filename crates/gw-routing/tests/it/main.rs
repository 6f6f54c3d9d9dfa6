//! What the decisions come to over time: an hour of traffic on a virtual clock, and `docs/routing.md`, which shows it.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test that is wrong may stop")]

mod few_allocations;
mod hedged;
mod hour;
mod page;
mod world;
