//! Presets: the changes that an alias makes to the body of a request before the body is read.
//!
//! The parameters of a preset have the names of chat completions. On another surface they stand for the same parameter
//! (`presets/places.rs`). A body is changed member by member, so all others stay byte for byte (`presets/members.rs`).

mod forms;
mod members;
mod places;
mod rewrite;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use gw_providers::settings::PromptCacheSettings;
use gw_wire::gateway::PresetUse;
use gw_wire::json::{Kind as JsonKind, View, check};
use gw_wire::request::fields::{Path, wrong_type};
use gw_wire::utf8;
use http::HeaderName;
use memchr::memmem::Finder;

use self::members::{ObjectMembers, quoted};
pub use self::places::PresetSurface;
use crate::catalog::claude_names::claude_name;
use crate::catalog::query::shown;
use crate::error::{Error, Kind, Result};
use crate::names_map::NamesMap;
use crate::settings::{AliasSettings, Aliases};

/// The beginning of a name that stands for an alias, as OpenRouter's clients write it.
pub const PREFIX: &str = "@preset/";
/// The member that names a preset beside a model.
const MEMBER: &str = "preset";
/// Suffixes of names that choose a strategy.
const SUFFIXES: [&str; 2] = [":floor", ":nitro"];

/// The member's name, as nearly every client writes it.
static NAMED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"preset"));

/// The aliases.
#[derive(Debug, Default)]
pub struct Presets {
    /// Whether one of them is a preset.
    has_presets: bool,
    /// Whether one of them sets the breakpoints of prompt caches.
    has_prompt_caches: bool,
    aliases: NamesMap<Box<str>, Arc<Preset>>,
    /// The names of the headers that a target's condition reads.
    headers: Vec<HeaderName>,
}

/// One alias.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) settings: AliasSettings,
    pub(crate) used: Arc<PresetUse>,
}

/// A request that may name a preset.
#[derive(Clone, Copy, Debug)]
pub struct PresetRequest<'a> {
    /// Its surface.
    pub surface: PresetSurface,
    /// An answer is generated. Otherwise tokens are counted, or a conversation is compacted.
    pub is_generation: bool,
    /// The model of its URL.
    pub url_model: Option<&'a str>,
    /// Its body.
    pub body: &'a [u8],
}

/// A request that names a preset.
#[derive(Debug)]
pub struct AppliedPreset {
    /// The body for the reader of the surface.
    pub body: Bytes,
    /// The model in place of that of the URL; None: the URL's stands, or there is none.
    pub url_model: Option<String>,
    /// The preset. None: a plain alias.
    pub preset: Option<Arc<PresetUse>>,
}

impl Presets {
    /// The aliases of a configuration.
    pub(crate) fn new(aliases: &Aliases) -> Self {
        let mut presets = Self {
            has_presets: !aliases.values().all(AliasSettings::is_plain),
            has_prompt_caches: aliases.values().any(|alias| alias.prompt_cache.is_some()),
            ..Self::default()
        };
        for (name, settings) in aliases {
            let conditions = settings.conditional.iter().filter_map(|target| target.condition.as_ref());
            for (header, _) in conditions.flat_map(|condition| &condition.headers) {
                // The schema of the configuration has checked the name.
                let name = HeaderName::try_from(header).ok();
                presets.headers.extend(name.filter(|name| !presets.headers.contains(name)));
            }
            let used = PresetUse { name: name.as_str().into(), version: settings.version.as_str().into() };
            let preset = Arc::new(Preset { settings: settings.clone(), used: Arc::new(used) });
            if let Some(second) = claude_name(name).filter(|_| settings.has_claude_name) {
                presets.aliases.insert(second.into(), Arc::clone(&preset));
            }
            presets.aliases.insert(name.as_str().into(), preset);
        }
        presets
    }

    /// Whether no alias is a preset.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_presets
    }

    /// The breakpoints of prompt caches that the alias of this name sets.
    pub(crate) fn prompt_cache(&self, name: &str) -> Option<&PromptCacheSettings> {
        if !self.has_prompt_caches {
            return None;
        }
        self.alias(name)?.settings.prompt_cache.as_ref()
    }

    /// Whether a body may name a preset. `is_certain`: no later step looks at its member `preset`.
    pub(crate) fn may_apply(&self, body: &[u8], is_certain: bool) -> bool {
        self.has_presets || ((is_certain || !self.aliases.is_empty()) && NAMED.find(body).is_some())
    }

    /// The names of the headers that a target's condition reads.
    #[must_use]
    pub fn headers(&self) -> &[HeaderName] {
        &self.headers
    }

    /// The alias of this name, which may have a suffix for a strategy.
    pub(crate) fn alias(&self, name: &str) -> Option<&Arc<Preset>> {
        let stem = || SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
        self.aliases.get(name).or_else(|| self.aliases.get(stem()?))
    }

    /// Applies the preset that a request names. None: it names none, or its body cannot be read. `may_use` says whether the
    /// caller may use one of the models of an alias.
    ///
    /// # Errors
    /// `model_not_found` for an unknown preset, `invalid_type`.
    pub(crate) fn apply(
        &self,
        request: PresetRequest<'_>,
        may_use: impl Fn(&str) -> bool,
    ) -> Result<Option<AppliedPreset>> {
        let PresetRequest { surface, is_generation, url_model, body } = request;
        let Ok(text) = utf8::text(body) else { return Ok(None) };
        let root = View::new(text);
        if root.kind() != JsonKind::Object || check(text).is_err() {
            return Ok(None);
        }
        let is_loose = matches!(surface, PresetSurface::Gemini | PresetSurface::GeminiEmbedding);
        let mut changed = ObjectMembers::read(root, is_loose);
        let beside = named_beside(changed.get(MEMBER))?;
        let model = match url_model {
            Some(model) => Some(model.into()),
            None => model_of(root),
        };
        let prefixed = model.as_deref().and_then(|model| model.strip_prefix(PREFIX));
        let named = match &beside {
            Some(name) => Some(name.strip_prefix(PREFIX).unwrap_or(name)),
            None => prefixed,
        };
        let preset = match named {
            Some(name) => Some(self.alias(name).filter(|_| may_use(name)).ok_or_else(|| unknown(name))?),
            None => model.as_deref().and_then(|model| self.alias(model)),
        };
        let has_member = changed.has(MEMBER);
        if preset.is_none() && !has_member {
            return Ok(None);
        }
        changed.remove(MEMBER);
        if let Some(name) = prefixed.filter(|_| url_model.is_none()) {
            changed.set("model", quoted(name));
        }
        if let Some(preset) = preset {
            rewrite::apply(surface, is_generation, &preset.settings.preset, &mut changed);
        }
        Ok(Some(AppliedPreset {
            body: changed.write().into(),
            url_model: prefixed.filter(|_| url_model.is_some()).map(str::to_owned),
            preset: preset
                .filter(|preset| !preset.settings.is_plain())
                .map(|preset| Arc::clone(&preset.used)),
        }))
    }
}

/// The preset of the member `preset`. An empty text names none.
fn named_beside(member: Option<&str>) -> Result<Option<String>> {
    let Some(member) = member.map(View::new) else { return Ok(None) };
    let name = member.string().ok_or_else(|| not_a_text(member))?;
    Ok(Some(name.into_owned()).filter(|name| !name.is_empty()))
}

/// The model of a body: `model`, else the first of `models`.
fn model_of(root: View<'_>) -> Option<Cow<'_, str>> {
    let [model, models] = root.pick(["model", "models"]);
    match model {
        Some(model) => model.string(),
        None => models?.elements().next()?.string(),
    }
}

fn not_a_text(member: View<'_>) -> Error {
    wrong_type(&Path::Top(MEMBER), "a string", member).into()
}

fn unknown(name: &str) -> Error {
    let message = format!("The preset '{}' does not exist or you do not have access to it.", shown(name));
    Error::new(Kind::ModelNotFound, message)
}

#[cfg(test)]
mod tests;
