//! The loader as a whole: what it reads, what it refuses, and how it says so.

use std::path::Path;

use super::{Config, LaterFeature, Problem, parse};

mod documents;
mod environment;
mod robust;
mod rules;
mod secrets;

/// No variable is set.
fn bare(_: &str) -> Option<String> {
    None
}

/// What a text says; it must be right.
fn good(text: &str) -> Config {
    match parse(text, Path::new("gateway.toml"), &bare) {
        Ok(config) => config,
        Err(problems) => panic!("{text}\n{}", shown(&problems).join("\n")),
    }
}

/// What is wrong with a text, without the file's name.
fn wrong(text: &str) -> Vec<String> {
    let problems = parse(text, Path::new("gateway.toml"), &bare).expect_err(text);
    shown(&problems).iter().map(|line| line.trim_start_matches("gateway.toml:").to_owned()).collect()
}

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn mentioned(later: &[LaterFeature]) -> Vec<&str> {
    later.iter().map(|later| later.path.as_str()).collect()
}
