//! Presets: the changes that an alias makes to the body of a request before the body is read.
//!
//! The parameters of a preset have the names of chat completions. On another surface they stand for the same parameter
//! (`presets/places.rs`). A body is changed member by member, so all others stay byte for byte (`presets/members.rs`).

mod members;
mod places;
mod rewrite;

use std::sync::Arc;

use bytes::Bytes;
use gw_wire::gateway::PresetUse;
use gw_wire::json::{Kind as JsonKind, View, check};
use gw_wire::request::fields::{Path, wrong_type};
use gw_wire::utf8;
use http::HeaderName;

pub use self::places::PresetSurface;
use crate::catalog::query::shown;
use crate::error::{Error, Kind, Result};
use crate::names_map::NamesMap;
use crate::settings::{AliasSettings, Aliases};

/// The beginning of a name that stands for an alias, as OpenRouter's clients write it.
pub(crate) const PREFIX: &str = "@preset/";
/// The member that names a preset beside a model.
const MEMBER: &str = "preset";
/// Suffixes of names that choose a strategy.
const SUFFIXES: [&str; 2] = [":floor", ":nitro"];

/// The aliases, if one of them is a preset.
#[derive(Debug, Default)]
pub struct Presets {
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
    /// The aliases of a configuration. Empty if none of them is a preset.
    pub(crate) fn new(aliases: &Aliases) -> Self {
        let mut presets = Self::default();
        if aliases.values().all(AliasSettings::is_plain) {
            return presets;
        }
        for (name, settings) in aliases {
            let conditions = settings.conditional.iter().filter_map(|target| target.condition.as_ref());
            for (header, _) in conditions.flat_map(|condition| &condition.headers) {
                // The schema of the configuration has checked the name.
                let name = HeaderName::try_from(header).ok();
                presets.headers.extend(name.filter(|name| !presets.headers.contains(name)));
            }
            let used = PresetUse { name: name.as_str().into(), version: settings.version.as_str().into() };
            let preset = Arc::new(Preset { settings: settings.clone(), used: Arc::new(used) });
            if let Some(second) = crate::catalog::claude_name(name).filter(|_| settings.has_claude_name) {
                presets.aliases.insert(second.into(), Arc::clone(&preset));
            }
            presets.aliases.insert(name.as_str().into(), preset);
        }
        presets
    }

    /// Whether no alias is a preset.
    pub(crate) fn is_empty(&self) -> bool {
        self.aliases.is_empty()
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
        surface: PresetSurface,
        url_model: Option<&str>,
        body: &[u8],
        may_use: impl Fn(&str) -> bool,
    ) -> Result<Option<AppliedPreset>> {
        let Ok(text) = utf8::text(body) else { return Ok(None) };
        let root = View::new(text);
        if root.kind() != JsonKind::Object || check(text).is_err() {
            return Ok(None);
        }
        let [model, member] = root.pick(["model", MEMBER]);
        let model = match url_model {
            Some(model) => Some(model.into()),
            None => model.and_then(View::string),
        };
        let beside = match member.map(|member| member.string().ok_or_else(|| not_a_text(member))) {
            Some(name) => Some(name?).filter(|name| !name.is_empty()),
            None => None,
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
        let Some(preset) = preset else { return Ok(None) };
        let mut changed = members::ObjectMembers::read(root);
        changed.remove(MEMBER);
        if let Some(name) = prefixed.filter(|_| url_model.is_none()) {
            changed.set("model", members::quoted(name));
        }
        rewrite::apply(surface, &preset.settings.preset, &mut changed);
        Ok(Some(AppliedPreset {
            body: changed.write().into(),
            url_model: prefixed.filter(|_| url_model.is_some()).map(str::to_owned),
            preset: (!preset.settings.is_plain()).then(|| Arc::clone(&preset.used)),
        }))
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
