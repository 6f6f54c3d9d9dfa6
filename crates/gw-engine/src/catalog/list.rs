//! `GET /v1/models` and `GET /v1/models/{id}`: filters, paging, bodies.

use bytes::Bytes;

use super::codex_list;
use super::entry;
use super::model::Model;
use super::names::Index;
use super::query::{Query, invalid, shown};
use crate::error::{Error, Kind, Result};

/// The models that the caller's key may see; None = all.
pub type Visible<'a> = Option<&'a dyn Fn(&Model) -> bool>;

/// Whether the caller may see the model.
pub(super) fn sees(visible: Visible<'_>, model: &Model) -> bool {
    visible.is_none_or(|visible| visible(model))
}

/// The 404 for a model that does not exist or that the caller may not see.
#[must_use]
pub fn not_found(name: &str) -> Error {
    let message = format!("The model '{}' does not exist or you do not have access to it.", shown(name));
    Error::new(Kind::ModelNotFound, message)
}

/// The largest page.
const MAX_PAGE_ENTRIES: usize = 1000;

/// The parameters of a list request.
struct ListParameters<'q> {
    limit: usize,
    /// The place in the catalogue where the page begins.
    from: usize,
    /// Matching entries that are skipped.
    offset: usize,
    providers: Vec<&'q str>,
    categories: Vec<&'q str>,
    features: Vec<&'q str>,
    modalities: Vec<&'q str>,
    search: String,
    /// `include=faults`: lists the demo models that fail on purpose, too.
    with_faults: bool,
}

impl<'q> ListParameters<'q> {
    fn read(query: &'q Query, index: &Index, visible: Visible<'_>) -> Result<Self> {
        let limit = query.whole("limit", 1)?;
        if limit.is_some_and(|limit| limit > MAX_PAGE_ENTRIES) {
            let given = shown(query.last("limit").unwrap_or_default());
            let message = format!(
                "Invalid 'limit': integer above maximum value. Expected a value <= {MAX_PAGE_ENTRIES}, but got {given} instead."
            );
            return Err(invalid("integer_above_max_value", message));
        }
        let offset = query.whole("offset", 0)?;
        let after = query.last("after");
        if offset.is_some() && after.is_some() {
            let message = "Invalid 'offset': 'after' and 'offset' cannot be used together.";
            return Err(invalid("invalid_value", message));
        }
        let from = match after {
            None => 0,
            Some(id) => match entries(index, visible).find(|(_, entry)| entry.name() == id) {
                Some((place, _)) => place + 1,
                None => {
                    let message = format!("Invalid 'after': there is no model '{}'.", shown(id));
                    return Err(invalid("invalid_value", message));
                }
            },
        };
        Ok(Self {
            limit: limit.unwrap_or(usize::MAX),
            from,
            offset: offset.unwrap_or(0),
            providers: query.items("provider"),
            categories: query.items("category"),
            features: query.items("feature"),
            modalities: query.items("modality"),
            search: query.last("search").unwrap_or_default().to_lowercase(),
            with_faults: query.items("include").contains(&"faults"),
        })
    }

    fn matches(&self, model: &Model) -> bool {
        let modalities = model.modalities.as_ref();
        (self.with_faults || !model.is_fault)
            && any(&self.providers, |wanted| &*model.provider == wanted)
            && any(&self.categories, |wanted| lists(model.category.as_deref(), wanted))
            && self.features.iter().all(|wanted| lists(model.features.as_deref(), wanted))
            && self.modalities.iter().all(|wanted| {
                lists(modalities.map(|known| &*known.input), wanted)
                    || lists(modalities.map(|known| &*known.output), wanted)
            })
    }

    fn found_in(&self, entry: &ListEntry<'_>) -> bool {
        let model = entry.model();
        let texts: [&str; 3] = [entry.name(), &model.name, &model.description];
        self.search.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&self.search))
    }
}

/// An entry of a list.
pub(super) enum ListEntry<'i> {
    /// A model.
    Model(&'i Model),
    /// An alias, with the models of it that the caller may see. There is at least one.
    Alias {
        /// The alias.
        name: &'i str,
        /// Its first model, whose facts the entry shows.
        first: &'i Model,
        /// All its models.
        models: Vec<&'i Model>,
    },
}

impl<'i> ListEntry<'i> {
    /// The name that a request uses.
    pub(super) fn name(&self) -> &'i str {
        match self {
            Self::Model(model) => &model.id,
            Self::Alias { name, .. } => name,
        }
    }

    /// The name that people read.
    pub(super) fn display_name(&self) -> &'i str {
        match self {
            Self::Model(model) => &model.name,
            Self::Alias { name, .. } => name,
        }
    }

    /// The model whose facts the entry shows.
    pub(super) fn model(&self) -> &'i Model {
        match self {
            Self::Model(model) => model,
            Self::Alias { first, .. } => first,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Model(model) => entry::copy(model, out),
            Self::Alias { name, first, models } => {
                entry::copy_alias(name, first, models.iter().map(|model| &*model.id), out);
            }
        }
        out.push(b'}');
    }
}

/// The entries that the caller may see, each with its place: the models in catalogue order, then the aliases.
pub(super) fn entries<'i>(
    index: &'i Index,
    visible: Visible<'i>,
) -> impl Iterator<Item = (usize, ListEntry<'i>)> {
    let models = index.models.iter().filter(move |model| sees(visible, model));
    let aliases =
        index.listed_aliases().iter().filter_map(move |alias| alias_entry(index, &alias.name, visible));
    models.map(|model| ListEntry::Model(model)).chain(aliases).enumerate()
}

/// The entry of an alias or of its second name. None: the caller may see none of its models.
pub(super) fn alias_entry<'i>(
    index: &'i Index,
    name: &'i str,
    visible: Visible<'_>,
) -> Option<ListEntry<'i>> {
    let models = index.alias_models(name).iter().map(AsRef::as_ref);
    let models: Vec<&Model> = models.filter(|model| sees(visible, model)).collect();
    let first = models.first().copied()?;
    Some(ListEntry::Alias { name, first, models })
}

/// The names that the caller may use, without the models that fail on purpose.
pub(super) fn names(index: &Index, visible: Visible<'_>) -> Vec<String> {
    let listed = entries(index, visible).filter(|(_, entry)| !entry.model().is_fault);
    listed.map(|(_, entry)| entry.name().to_owned()).collect()
}

/// A filter that is not set passes everything.
fn any(wanted: &[&str], has: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| has(wanted))
}

/// A filter finds known facts only, so an unknown list matches nothing.
fn lists(known: Option<&[Box<str>]>, wanted: &str) -> bool {
    known.is_some_and(|known| known.iter().any(|item| &**item == wanted))
}

/// The body of `GET /v1/models`. A request with `client_version` comes from Codex, whose models are in `models`.
pub(super) fn page(
    index: &Index,
    query: &str,
    visible: Visible<'_>,
    codex_instructions: Option<&str>,
) -> Result<Bytes> {
    let query = Query::parse(query);
    let parameters = ListParameters::read(&query, index, visible)?;
    let mut body = Vec::new();
    body.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    let (mut total, mut passed, mut given, mut has_more) = (0_usize, 0_usize, 0_usize, false);
    for (place, entry) in entries(index, visible) {
        if !parameters.matches(entry.model()) || !parameters.found_in(&entry) {
            continue;
        }
        total += 1;
        if place < parameters.from {
            continue;
        }
        passed += 1;
        if passed <= parameters.offset {
            continue;
        }
        if given == parameters.limit {
            has_more = true;
            continue;
        }
        if given > 0 {
            body.push(b',');
        }
        given += 1;
        entry.write(&mut body);
    }
    body.extend_from_slice(format!("],\"total\":{total},\"has_more\":{has_more}").as_bytes());
    if query.last("client_version").is_some() {
        codex_list::append(index, visible, codex_instructions, &mut body);
    }
    body.push(b'}');
    Ok(Bytes::from(body))
}

/// The body of `GET /v1/models/{id}`. A bare name or an alias leads to its first model that the caller may see.
pub(super) fn one(index: &Index, id: &str, visible: Visible<'_>) -> Result<Bytes> {
    // A slash at the end of a path has no meaning, but a model's name may end with one.
    let without = || index.resolve(id.strip_suffix('/')?);
    let resolved = index.resolve(id).or_else(without).or_else(|| index.resolve(&format!("{id}/")));
    let resolved = resolved.ok_or_else(|| not_found(id))?;
    let model = resolved.models.iter().find(|model| sees(visible, model)).ok_or_else(|| not_found(id))?;
    let mut body = Vec::with_capacity(model.entry.len() + model.entry_end.len() + 64);
    entry::copy(model, &mut body);
    body.extend_from_slice(&model.entry_end);
    Ok(Bytes::from(body))
}
