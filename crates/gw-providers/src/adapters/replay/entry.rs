//! One entry of `reasoning_details`: its members, the payload that is sealed, and the entry that a client gets.

use gw_wire::json::{ObjectWriter, View, write_str};

use super::ORIGIN;

/// The members that are sealed, in their order. The others stay visible and come back from the client.
const SEALED: [&str; 8] = ["type", "id", "format", "index", "text", "signature", "data", ORIGIN];

/// The members that a provider signs or encrypts.
const SIGNED: [&str; 2] = ["data", "signature"];

/// The members that a later piece of an entry replaces. Other texts are joined, as clients do it.
const REPLACED: [&str; 5] = ["type", "id", "format", "index", ORIGIN];

/// The most members of an entry that is sealed. Further ones are left out.
const MAX_MEMBERS: usize = 64;

/// An entry, or the pieces of one.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    members: Vec<(String, EntryValue)>,
}

#[derive(Clone, Debug)]
enum EntryValue {
    Text(String),
    /// JSON text of another kind.
    Raw(String),
}

impl EntryValue {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Raw(text) => text.len(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_str(out, text),
            Self::Raw(json) => out.extend_from_slice(json.as_bytes()),
        }
    }
}

/// The signature or the encrypted data of an entry, with the member's name.
pub(super) fn signed_member(entry: View<'_>) -> Option<(&'static str, std::borrow::Cow<'_, str>)> {
    let texts = entry.pick(SIGNED).map(|value| value.and_then(View::string));
    SIGNED.into_iter().zip(texts).find_map(|(name, text)| Some((name, text.filter(|text| !text.is_empty())?)))
}

impl Entry {
    /// Reads an entry.
    pub(super) fn read(entry: View<'_>) -> Self {
        let mut read = Self::default();
        read.join(entry);
        read
    }

    /// Adds a later piece.
    pub(super) fn join(&mut self, piece: View<'_>) {
        for (name, value) in piece.members() {
            let Some(name) = name.string() else { continue };
            let value = match value.string() {
                Some(text) => EntryValue::Text(text.into_owned()),
                None => EntryValue::Raw(value.text().to_owned()),
            };
            let has_room = self.members.len() < MAX_MEMBERS;
            let known = self.members.iter_mut().find(|(known, _)| *known == name).map(|(_, known)| known);
            match (known, value) {
                (Some(EntryValue::Text(known)), EntryValue::Text(more)) if !REPLACED.contains(&&*name) => {
                    known.push_str(&more);
                }
                // A null says nothing about the entry.
                (Some(_), EntryValue::Raw(json)) if json == "null" => {}
                (Some(known), value) => *known = value,
                (None, value) if has_room => {
                    self.members.push((name.into_owned(), value));
                }
                (None, _) => {}
            }
        }
    }

    /// Bytes that the entry keeps.
    pub(super) fn held_bytes(&self) -> usize {
        let member = |(name, value): &(String, EntryValue)| name.len() + value.len() + 64;
        self.members.iter().map(member).sum()
    }

    fn value(&self, name: &str) -> Option<&EntryValue> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn has_text(&self, name: &str) -> bool {
        matches!(self.value(name), Some(EntryValue::Text(text)) if !text.is_empty())
    }

    /// Whether the entry has members that a client can use besides its index and its type.
    pub(super) fn has_content(&self) -> bool {
        self.members.iter().any(|(name, _)| !matches!(&**name, "index" | "type"))
    }

    /// Whether the entry signs a text of reasoning.
    pub(super) fn signs_reasoning(&self) -> bool {
        self.has_text("signature")
    }

    /// Removes the signature and the encrypted data.
    pub(super) fn without_signature(mut self) -> Self {
        self.members.retain(|(name, _)| !SIGNED.contains(&&**name));
        self
    }

    /// The payload: a JSON object that does not depend on the order of the members or on how the entry was cut into
    /// pieces. `earlier` is the beginning of the entry.
    pub(super) fn payload(&self, earlier: Option<&Self>) -> String {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        for name in SEALED {
            let before = earlier.and_then(|earlier| earlier.value(name));
            match (before, self.value(name)) {
                (Some(EntryValue::Text(before)), Some(EntryValue::Text(more)))
                    if !REPLACED.contains(&name) =>
                {
                    object.string(name, &format!("{before}{more}"));
                }
                (_, Some(value)) | (Some(value), None) => value.write(object.member(name)),
                (None, None) => {}
            }
        }
        object.finish();
        String::from_utf8(out).unwrap_or_default()
    }

    /// Writes the entry for a client, with a sealed string in place of the signature. Without a sealed string the
    /// signature is left out.
    pub(super) fn write(&self, sealed: Option<&str>, origin: Option<&str>, out: &mut Vec<u8>) {
        let place = if self.has_text("data") { "data" } else { "signature" };
        let mut object = ObjectWriter::begin(out);
        for (name, value) in &self.members {
            match sealed {
                _ if name == ORIGIN => {}
                Some(sealed) if name == place => write_str(object.member(name), sealed),
                _ if SIGNED.contains(&&**name) => {}
                _ => value.write(object.member(name)),
            }
        }
        object.optional_string(ORIGIN, origin);
        object.finish();
    }
}

/// The entry as the provider gave it: the payload, and members that the payload does not have from the client's entry.
/// Clients join pieces, so the text may be only in their entry.
pub(super) fn restored(payload: &str, entry: View<'_>) -> String {
    let payload = View::new(payload);
    let mut out = Vec::with_capacity(payload.text().len() + 64);
    let mut object = ObjectWriter::begin(&mut out);
    let mut written = Vec::new();
    let [index] = entry.pick(["index"]);
    for (name, value) in payload.members() {
        let Some(name) = name.string() else { continue };
        // The client may have put the entry at another place.
        let value = index.filter(|_| name == "index").unwrap_or(value);
        object.raw(&name, value.text());
        written.push(name);
    }
    for (name, value) in entry.members() {
        let Some(name) = name.string() else { continue };
        if name != ORIGIN && !SIGNED.contains(&&*name) && !written.contains(&name) {
            object.raw(&name, value.text());
        }
    }
    object.finish();
    String::from_utf8(out).unwrap_or_default()
}
