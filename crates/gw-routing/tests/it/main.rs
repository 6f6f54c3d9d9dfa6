//! What the decisions come to over time: an hour of traffic on a virtual clock, and `docs/routing.md`, which shows it.

mod hedged;
mod hour;
mod page;
mod world;
