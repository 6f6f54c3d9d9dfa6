//! `model-gateway models update`: replaces the catalogue by a newer one that is signed with a trusted key. The gateway never
//! does this by itself.

mod diff;
mod fetch;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use gw_admin::time::format_millis;
use gw_command::{CommandError, Common, first_lines, print};
use gw_config::catalogue_update::{FILES, Rejection, SignedFile, UpdateDocument, shipped_time};
use gw_config::paths;
use gw_config::setup::{self, Setup};
use gw_engine::catalog::SHIPPED;
use gw_wire::calendar;
use serde_json::json;
use serde_json::value::RawValue;

use diff::Diff;

/// The options of `models update`.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// Catalogue: a file, or an https:// address
    #[arg(value_name = "FILE|URL", required_unless_present = "revert")]
    source: Option<String>,
    /// Signature of the catalogue [default: FILE.minisig or URL.minisig]
    #[arg(long, value_name = "FILE|URL", conflicts_with = "revert")]
    signature: Option<String>,
    /// Go back to the catalogue before the last update, or to that of the program
    #[arg(long, conflicts_with = "source")]
    revert: bool,
    /// Use the catalogue without a question
    #[arg(long)]
    yes: bool,
}

/// Shows the changes, and installs the catalogue after a consent.
///
/// # Errors
/// Exit code 2 for a catalogue that must not be used or without consent, 1 when a file or an address does not answer.
pub(crate) fn run(common: &Common, args: &UpdateArgs, as_json: bool) -> Result<(), CommandError> {
    let setup = setup::load(common)?;
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let plan = if args.revert { Plan::revert(&setup, &data)? } else { Plan::update(&setup, args)? };
    let diff = Diff::between(setup.documents.first().map_or("[]", |document| document), &plan.models);
    if as_json {
        let changes = json!({ "made_at": plan.made_at.map(format_millis), "changes": diff.to_json() });
        print(&format!("{changes:#}\n"))?;
    } else {
        print(&format!("{}\n{}", plan.title, diff.to_text()))?;
    }
    consent(args.yes)?;
    plan.carry_out(&data).map_err(|error| CommandError::Runtime(format!("{}: {error}", data.display())))?;
    let done = "the next start of the gateway, or `model-gateway reload`, uses this catalogue\n";
    if as_json { Ok(()) } else { print(done) }
}

/// Asks on the terminal. Without a terminal only `--yes` is a consent.
fn consent(yes: bool) -> Result<(), CommandError> {
    let refused = |text: &str| Err(CommandError::Usage(text.to_owned()));
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return refused("nothing is changed without a consent: add --yes");
    }
    let _ = write!(io::stderr(), "Use this catalogue? [y/N] ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { refused("nothing was changed") }
}

/// A change that waits for consent.
struct Plan {
    title: String,
    /// The entries of the catalogue that it leads to.
    models: String,
    made_at: Option<i64>,
    step: UpdateStep,
}

enum UpdateStep {
    /// These files become the installed ones.
    Install(SignedFile),
    /// The previous update becomes the installed one, or the catalogue of the program does.
    Revert,
}

impl Plan {
    fn update(setup: &Setup, args: &UpdateArgs) -> Result<Self, CommandError> {
        let keys = &setup.config.catalogue_keys;
        if keys.is_empty() {
            return Err(CommandError::Usage(
                "no key is trusted: set trusted_keys in [catalogue] to the minisign public key of the catalogue's publisher; \
                 the program ships no key"
                    .to_owned(),
            ));
        }
        let source = args.source.as_deref().unwrap_or_default();
        let signature = args.signature.clone().unwrap_or_else(|| format!("{source}.minisig"));
        let found = gw_command::runtime()?
            .block_on(Box::pin(fetch::signed(source, &signature)))
            .map_err(CommandError::runtime)?;
        let refused = |rejection: Rejection| CommandError::Usage(format!("{source} is refused: {rejection}"));
        let update = UpdateDocument::verify(&found, keys).map_err(refused)?;
        update.check_age(current_time(setup)?, calendar::unix_millis()).map_err(refused)?;
        usable(setup, &update).map_err(refused)?;
        Ok(Self {
            title: format!("catalogue of {}, signed with key {}", format_millis(update.made_at), update.key),
            models: update.models,
            made_at: Some(update.made_at),
            step: UpdateStep::Install(found),
        })
    }

    fn revert(setup: &Setup, data: &Path) -> Result<Self, CommandError> {
        let [path, _, previous, signature] = FILES.map(|name| data.join(name));
        if !path.exists() {
            return Err(CommandError::Usage(
                "there is no update: the catalogue of the program is in use".to_owned(),
            ));
        }
        if !previous.exists() {
            let title = "back to the catalogue of the program".to_owned();
            return Ok(Self { title, models: SHIPPED.to_owned(), made_at: None, step: UpdateStep::Revert });
        }
        let found = SignedFile::read(&previous, &signature).map_err(CommandError::runtime)?;
        let update = UpdateDocument::verify(&found, &setup.config.catalogue_keys).map_err(|rejection| {
            CommandError::Usage(format!("{} is refused: {rejection}", previous.display()))
        })?;
        let title = format!("back to the catalogue of {}", format_millis(update.made_at));
        Ok(Self { title, models: update.models, made_at: Some(update.made_at), step: UpdateStep::Revert })
    }

    fn carry_out(&self, data: &Path) -> io::Result<()> {
        let [path, signature, previous, previous_signature] = FILES.map(|name| data.join(name));
        match &self.step {
            UpdateStep::Install(found) => {
                if path.exists() {
                    fs::rename(&signature, &previous_signature)?;
                    fs::rename(&path, &previous)?;
                }
                // A start between the two finds no catalogue, and uses that of the program.
                replace(&signature, found.signature.as_bytes())?;
                replace(&path, &found.bytes)
            }
            UpdateStep::Revert if previous.exists() => {
                fs::rename(&previous_signature, &signature)?;
                fs::rename(&previous, &path)
            }
            UpdateStep::Revert => {
                fs::remove_file(&path)?;
                fs::remove_file(&signature)
            }
        }
    }
}

/// Writes a file under another name first, so that no start reads an incomplete one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent: PathBuf = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let mut draft = tempfile::NamedTempFile::new_in(parent)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    draft.persist(path).map(drop).map_err(|error| error.error)
}

/// The time of the catalogue in use, in unix milliseconds.
fn current_time(setup: &Setup) -> Result<i64, CommandError> {
    let data = paths::find_data_dir(setup.config.data_dir.as_deref());
    let [path, signature, ..] = FILES.map(|name| data.as_deref().unwrap_or(Path::new("")).join(name));
    let shipped = shipped_time();
    if !path.exists() {
        return Ok(shipped);
    }
    let found = SignedFile::read(&path, &signature).map_err(CommandError::runtime)?;
    let update = UpdateDocument::verify(&found, &setup.config.catalogue_keys);
    Ok(update.map_or(shipped, |update| update.made_at.max(shipped)))
}

/// Builds the catalogue of all its providers, and that of the configuration.
fn usable(setup: &Setup, update: &UpdateDocument) -> Result<(), Rejection> {
    let tried = Setup {
        config: setup.config.clone(),
        path: None,
        notes: Vec::new(),
        documents: setup::documents(Some(update.models.as_str().into())),
    };
    let refused = |problems: Vec<String>| Rejection::Unusable(first_lines(&problems).trim_end().to_owned());
    tried.catalog(true).map_err(refused)?;
    let entries: Vec<&RawValue> =
        serde_json::from_str(&update.models).map_err(|error| Rejection::Malformed(error.to_string()))?;
    if entries.is_empty() { Err(Rejection::NoModels) } else { Ok(()) }
}
