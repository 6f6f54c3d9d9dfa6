//! Reads callgrind's files: totals, and calls of functions by name.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

/// Functions that allocate: jemalloc's for Rust, glibc's for SQLite and the cryptography.
const ALLOCATIONS: [&str; 8] = [
    "_rjem_malloc",
    "_rjem_calloc",
    "_rjem_mallocx",
    "_rjem_realloc",
    "_rjem_rallocx",
    "malloc",
    "calloc",
    "realloc",
];
/// Beginnings of the names of functions that copy memory. glibc has one for each kind of processor.
const COPIES: [&str; 2] = ["__memcpy_", "__memmove_"];
/// The beginning of the names of functions that read a clock.
const CLOCKS: [&str; 1] = ["clock_gettime"];

/// Beginnings of the names of functions that run a task or a thread.
const RUNTIME: [&str; 9] =
    ["PROGRAM", "clone", "start_thread", "./", "std::", "core::", "tokio::", "<core::", "<std::"];

/// Number of functions of a list.
const LISTED: usize = 40;

/// Counts per request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) instructions: u64,
    /// Calls of an allocating function, from the program and from its libraries.
    pub(crate) allocations: u64,
    /// Calls of `memcpy` and `memmove`. The compiler makes short copies without a call.
    pub(crate) copies: u64,
    /// Readings of a clock.
    pub(crate) clocks: u64,
}

/// Reads the counts of a dump of this many requests.
pub(crate) fn read(dump: &Path, requests: u64) -> Result<Counts> {
    let text = std::fs::read_to_string(dump)?;
    Ok(counts(&text, requests))
}

fn counts(text: &str, requests: u64) -> Counts {
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<u64>().ok());
    let calls = calls(text);
    let of = |is_wanted: &dyn Fn(&str) -> bool| {
        let called: u64 = calls.iter().filter(|(name, _)| is_wanted(name)).map(|(_, calls)| calls).sum();
        called / requests.max(1)
    };
    let begins = |name: &str, beginnings: &[&str]| beginnings.iter().any(|start| name.starts_with(start));
    Counts {
        instructions: total.unwrap_or_default() / requests.max(1),
        allocations: of(&|name| ALLOCATIONS.contains(&name)),
        copies: of(&|name| begins(name, &COPIES)),
        clocks: of(&|name| begins(name, &CLOCKS)),
    }
}

/// The calls of each function. A file writes a function's name once, `cfn=(7) name`, and then `cfn=(7)`; each such line is followed
/// by one with the number of the calls.
fn calls(text: &str) -> HashMap<&str, u64> {
    let (mut names, mut calls) = (HashMap::new(), HashMap::new());
    let mut called = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
            if !name.is_empty() {
                // A recursion has the same name with a number.
                names.insert(id, name.split('\'').next().unwrap_or(name));
            }
            called = names.get(id).copied();
        } else if let Some(rest) = line.strip_prefix("calls=") {
            let number = rest.split(' ').next().and_then(|number| number.parse::<u64>().ok());
            if let (Some(name), Some(number)) = (called, number) {
                *calls.entry(name).or_default() += number;
            }
        }
    }
    calls
}

/// The functions that need most instructions with their callees, in instructions of a request, most first. Frames of the runtime
/// that hold all of the rest are left out.
pub(crate) fn functions(dump: &Path, requests: u64) -> Result<Vec<(String, u64)>> {
    Ok(annotated(dump, "yes")?.lines().filter_map(|line| function(line, requests)).take(LISTED).collect())
}

/// Each function with its own instructions, without those of the functions that it calls, in instructions of all requests.
pub(crate) fn own_instructions(dump: &Path) -> Result<Vec<(String, u64)>> {
    Ok(annotated(dump, "no")?.lines().filter_map(|line| function(line, 1)).collect())
}

fn annotated(dump: &Path, inclusive: &str) -> Result<String> {
    let mut command = Command::new("callgrind_annotate");
    command.arg(format!("--inclusive={inclusive}")).arg("--threshold=100").arg("--auto=no").arg(dump);
    let output = command.output().map_err(|error| Error::start(&command, error))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads `232,702,156 (99.95%)  file:function [object]`.
fn function(line: &str, requests: u64) -> Option<(String, u64)> {
    let (number, rest) = line.trim_start().split_once(" (")?;
    let number: u64 = number.replace(',', "").parse().ok()?;
    let name = rest.split_once("%)  ")?.1;
    let name = name.split(" [/").next().unwrap_or(name);
    let name = name.strip_prefix("???:").unwrap_or(name);
    (!RUNTIME.iter().any(|start| name.starts_with(start)))
        .then(|| (name.to_owned(), number / requests.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name() {
        let text = "fn=(1) main\n1 5\ncfn=(2) _rjem_malloc\ncalls=30 0\n1 9\ncfn=(3) clock_gettime@@GLIBC_2.17\ncalls=20 0\n1 9\n\
                    fn=(4) other\ncfn=(2)\ncalls=10 7\n1 9\ncfn=(5) __memcpy_avx_unaligned_erms\ncalls=50 0\n1 9\n\ntotals: 12345\n";
        let wanted = Counts { instructions: 1_234, allocations: 4, copies: 5, clocks: 2 };
        assert_eq!(counts(text, 10), wanted);
    }

    #[test]
    fn a_function_is_read_without_its_file() {
        let line = "210,621,752 (90.47%)  ???:gw_server::connection::run::{{closure}} [/work/model-gateway]";
        assert_eq!(
            function(line, 1_000),
            Some(("gw_server::connection::run::{{closure}}".to_owned(), 210_621))
        );
        for other in ["232,812,430 (100.0%)  PROGRAM TOTALS", "Ir", "1 ( 0.5%)  ???:tokio::x [/a]"] {
            assert_eq!(function(other, 1), None, "{other}");
        }
    }
}
