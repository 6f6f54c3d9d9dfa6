//! Tests of the whole loader: valid files, problems and their messages.

use std::path::Path;

use super::{Config, Problem, parse};

mod bindings;
mod documents;
mod environment;
mod passthrough;
mod robust;
mod rules;
mod secrets;
mod sections;

/// An environment without variables.
fn bare(_: &str) -> Option<String> {
    None
}

/// The configuration of a text, which must have no problem.
fn good(text: &str) -> Config {
    match parse(text, Path::new("gateway.toml"), &bare) {
        Ok(config) => config,
        Err(problems) => panic!("{text}\n{}", shown(&problems).join("\n")),
    }
}

/// The problems of a text, without the name of the file.
fn wrong(text: &str) -> Vec<String> {
    let problems = parse(text, Path::new("gateway.toml"), &bare).expect_err(text);
    shown(&problems).iter().map(|line| line.trim_start_matches("gateway.toml:").to_owned()).collect()
}

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Checks that a text has exactly these problems.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(wrong(text), expected, "{text}");
}
