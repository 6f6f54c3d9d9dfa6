//! Traces, metrics and logs as other programs get them.

mod collector;
mod traces;
