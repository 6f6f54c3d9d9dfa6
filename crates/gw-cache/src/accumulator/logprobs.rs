//! Joins the `logprobs` of many chunks: an object of lists, each the concatenation of its parts.

use gw_wire::json::{Kind, View, write_str};
use serde_json::value::RawValue;

/// The lists so far, as JSON text without brackets. A list is None while only null has come.
#[derive(Debug, Default)]
pub(super) struct Logprobs(Vec<(String, Option<String>)>);

impl Logprobs {
    /// Appends the lists of a chunk. None if a value is not a list, and so cannot be joined.
    pub(super) fn add(&mut self, raw: &RawValue) -> Option<()> {
        let object = View::new(raw.get());
        if object.kind() != Kind::Object {
            return None;
        }
        for (name, value) in object.members() {
            let name = name.string()?;
            let at = self.0.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.0.push((name.into_owned(), None));
                self.0.len() - 1
            });
            let (_, list) = self.0.get_mut(at)?;
            match value.kind() {
                Kind::Null => {}
                Kind::Array => {
                    let list = list.get_or_insert_default();
                    for element in value.elements() {
                        if !list.is_empty() {
                            list.push(',');
                        }
                        list.push_str(element.text());
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    pub(super) fn into_raw(self) -> Option<Box<RawValue>> {
        let mut out = vec![b'{'];
        for (at, (name, list)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_str(&mut out, name);
            out.push(b':');
            match list {
                Some(list) => {
                    out.push(b'[');
                    out.extend_from_slice(list.as_bytes());
                    out.push(b']');
                }
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
        String::from_utf8(out).ok().and_then(|text| RawValue::from_string(text).ok())
    }
}
