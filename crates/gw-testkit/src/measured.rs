//! Figures that depend on the machine: the time of a piece of work, or the memory of a process. Every run prints them. Only
//! `./test long` compares them with their bounds, because a busy or slow machine says nothing about the program.

use std::fmt::Debug;
use std::panic::Location;

/// The variable that `./test long` sets.
pub const VARIABLE: &str = "CHECK_MACHINE_FIGURES";

/// Whether this run compares figures with their bounds.
#[must_use]
pub fn is_checked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Prints a figure beside its bound. In `./test long` a figure above its bound fails the test.
#[track_caller]
#[expect(clippy::print_stdout, reason = "a test shows its figures")]
pub fn at_most<T: PartialOrd + Debug + Copy>(what: &str, figure: T, bound: T) {
    let place = Location::caller();
    println!("measured: {what}: {figure:?}, bound {bound:?} ({}:{})", place.file(), place.line());
    assert!(!is_checked() || figure <= bound, "{what}: {figure:?} is above {bound:?}");
}
