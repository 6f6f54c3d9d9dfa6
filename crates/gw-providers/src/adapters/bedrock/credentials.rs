//! AWS credentials from the usual environment variables or the shared credentials file. AWS SDKs and Tools Reference
//! Guide, "Environment variables list" and "Shared config and credentials files".
//!
//! Instance metadata, SSO and `credential_process` are not supported, because their clients are a whole SDK. Programs
//! that write temporary credentials to the shared file work, because the file is read again from time to time.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_credential_types::Credentials;
use parking_lot::Mutex;

use crate::settings::SettingsError;

/// How long credentials from the file are used before the file is read again.
const MAX_FILE_AGE: Duration = Duration::from_secs(60);

/// The largest credentials file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

const VARIABLES: [&str; 9] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "HOME",
    "USERPROFILE",
];

/// The environment variables that the adapter uses. The type has no `Debug`, so their values reach no log.
pub(super) struct AwsEnvironment(HashMap<&'static str, String>);

impl AwsEnvironment {
    /// Reads the environment of this process.
    pub(super) fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = VARIABLES.into_iter().filter_map(|name| Some((name, variable(name)?)));
        Self(set.filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    /// Returns a variable that is set and not blank.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

/// A source of credentials.
pub(super) enum AwsCredentialSource {
    Environment(Credentials),
    File { path: PathBuf, profile: String, read: Mutex<(Credentials, Instant)> },
}

impl fmt::Debug for AwsCredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment(_) => "Environment",
            Self::File { .. } => "File",
        })
    }
}

impl AwsCredentialSource {
    /// Finds the first source that has credentials. A profile from the settings goes before the environment variables.
    ///
    /// # Errors
    /// No source has credentials.
    pub(super) fn find(environment: &AwsEnvironment, profile: Option<&str>) -> Result<Self, SettingsError> {
        let key = environment.get("AWS_ACCESS_KEY_ID").zip(environment.get("AWS_SECRET_ACCESS_KEY"));
        if let Some((id, secret)) = key.filter(|_| profile.is_none()) {
            let token = environment.get("AWS_SESSION_TOKEN");
            return Ok(Self::Environment(credentials(&id, &secret, token.as_deref())));
        }
        let profile = profile.map(str::to_owned).or_else(|| environment.get("AWS_PROFILE"));
        let profile = profile.unwrap_or_else(|| "default".to_owned());
        let home = || environment.get("HOME").or_else(|| environment.get("USERPROFILE"));
        let path = environment.get("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        let path = path.or_else(|| Some(Path::new(&home()?).join(".aws").join("credentials")));
        let none = || SettingsError::NoAwsCredentials { profile: profile.clone() };
        let path = path.ok_or_else(none)?;
        let text = read_small_file(&path).ok_or_else(none)?;
        let first = of_profile(&text, &profile).ok_or_else(none)?;
        Ok(Self::File { path, read: Mutex::new((first, Instant::now())), profile })
    }

    /// Returns the current credentials and reads the file again when they are old.
    pub(super) async fn credentials(&self) -> Credentials {
        let Self::File { path, profile, read } = self else { return self.last_used() };
        let (known, at) = read.lock().clone();
        if at.elapsed() < MAX_FILE_AGE {
            return known;
        }
        let path = path.clone();
        let text = tokio::task::spawn_blocking(move || read_small_file(&path)).await.ok().flatten();
        // The file may be unreadable for a moment while another program writes it; the known credentials stay in use.
        let now = text.and_then(|text| of_profile(&text, profile)).unwrap_or(known);
        *read.lock() = (now.clone(), Instant::now());
        now
    }

    /// Returns the credentials that were used last.
    pub(super) fn last_used(&self) -> Credentials {
        match self {
            Self::Environment(credentials) => credentials.clone(),
            Self::File { read, .. } => read.lock().0.clone(),
        }
    }
}

fn credentials(id: &str, secret: &str, token: Option<&str>) -> Credentials {
    Credentials::new(
        id.trim(),
        secret.trim(),
        token.map(|token| token.trim().to_owned()),
        None,
        "model-gateway",
    )
}

fn read_small_file(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= MAX_FILE_BYTES).then(|| std::fs::read_to_string(path).ok())?
}

/// Returns the keys of one profile in the file's text.
fn of_profile(text: &str, profile: &str) -> Option<Credentials> {
    let mut is_inside = false;
    let (mut id, mut secret, mut token) = (None, None, None);
    for line in text.lines() {
        // Indented lines continue values of keys that do not matter here.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(name) = line.trim_end().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_inside = name.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_inside) {
            let value = Some(value.trim()).filter(|value| !value.is_empty());
            match name.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(credentials(id?, secret?, token))
}
