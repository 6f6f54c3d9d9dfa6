//! `model-gateway check`: every fault of a configuration, with its place; calls nobody.

use std::fmt::Write;

use crate::cli::{Common, Stop, print};
use crate::config::{self, Source};
use crate::places;
use crate::setup;

/// Prints what is wrong or worth knowing.
///
/// # Errors
/// Exit code 2 when the configuration cannot be used.
pub fn run(common: &Common) -> Result<(), Stop> {
    let source = places::config_source(common.config.as_deref());
    let name = match &source {
        Source::File(path) => path.display().to_string(),
        Source::Nothing => "no configuration file".to_owned(),
    };
    let problems = match config::load(source) {
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
        Ok(loaded) => {
            let mut notes: String = loaded.config.later.iter().fold(String::new(), |mut text, later| {
                let _ = writeln!(text, "note: {later}");
                text
            });
            // What only shows when the parts are put together: the catalogue, the addresses of providers.
            let (setup, problems) = setup::offline(loaded);
            for note in &setup.notes {
                let _ = writeln!(notes, "note: {note}");
            }
            print(&notes)?;
            problems
        }
    };
    if problems.is_empty() {
        return print(&format!("{name}: no problems\n"));
    }
    let mut text = problems.join("\n");
    text.push('\n');
    print(&text)?;
    let count = problems.len();
    Err(Stop::Usage(format!("{name}: {count} problem{}", if count == 1 { "" } else { "s" })))
}
