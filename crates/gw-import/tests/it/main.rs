//! Published configurations of other gateways become files without a problem, and the report names each key.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod litellm;
mod others;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use gw_config::{Loaded, setup};
use gw_import::{Conversion, ImportArgs};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ImportArgs,
}

fn folder(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/published").join(source)
}

/// The name and the text of each published configuration.
fn published(source: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder(source)).expect("the configurations");
    let mut all: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .map(|path| (name(&path), std::fs::read_to_string(&path).expect("a text")))
        .collect();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Converts a text, as `import SOURCE FILE OPTIONS` does.
pub(crate) fn import_with(source: &str, file: &str, text: &str, options: &[&str]) -> Conversion {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(file);
    std::fs::write(&path, text).expect("a written file");
    let path = path.to_str().expect("a path");
    let words = ["import", source, path].into_iter().chain(options.iter().copied());
    let args = Cli::try_parse_from(words).expect("options").args;
    gw_import::convert(&args).unwrap_or_else(|error| panic!("{file}: {error}"))
}

pub(crate) fn import(source: &str, file: &str, text: &str) -> Conversion {
    import_with(source, file, text, &[])
}

/// The problems that `check` finds in a result, with a value for each variable that the result or its report names.
pub(crate) fn problems(config: &str) -> Vec<String> {
    let known = variables(config);
    let env = |name: &str| {
        let other = format!("value-of-{name}").to_lowercase().replace('_', "-");
        let value = match name {
            name if ["BASE", "URL", "ENDPOINT"].iter().any(|word| name.contains(word)) => {
                "http://127.0.0.1:1/v1"
            }
            name if name.contains("PORT") => "6379",
            _ => &other,
        };
        known.iter().any(|known| known == name).then(|| value.to_owned())
    };
    let path = Path::new("gateway.toml");
    match gw_config::parse(config, path, &env) {
        Ok(config) => {
            let mut problems = setup::offline(Loaded { config, path: Some(path.to_owned()) }).1;
            // These credentials come from the environment of the process, which a test with threads cannot change.
            let has_credentials = known.iter().any(|name| name == "AWS_ACCESS_KEY_ID");
            problems.retain(|problem| !(has_credentials && problem.contains("AWS_ACCESS_KEY_ID")));
            problems
        }
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// The variables of a result that have no default.
fn variables(config: &str) -> Vec<String> {
    let names = config.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let from_references = names.filter(|name| !name.contains(":-")).map(str::to_owned);
    let head = config
        .lines()
        .find_map(|line| line.strip_prefix("# Set these environment variables before the start: "));
    let from_head =
        head.into_iter().flat_map(|names| names.trim_end_matches('.').split(", ")).map(str::to_owned);
    from_references.chain(from_head).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Imports the published configurations of a gateway, and checks the results.
pub(crate) fn import_all(source: &str, least: usize) {
    let all = published(source);
    assert!(all.len() >= least, "{} configurations", all.len());
    for (file, text) in all {
        let Conversion { config, report } = import(source, &file, &text);
        assert_eq!(problems(&config), Vec::<String>::new(), "{file}: {config}");
        let stem = file.split('.').next().unwrap_or_default();
        insta::assert_snapshot!(format!("{source}_{stem}"), format!("{config}\n{report}"));
    }
}
