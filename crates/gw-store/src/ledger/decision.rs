//! How a request was routed: what its page in the log shows beside its attempts.

use serde::Deserialize;

use super::line_text::LineText;

/// The most bytes of the texts of a decision.
const MAX_BYTES: usize = 1_536;
/// The most characters of one text.
const MAX_CHARS: usize = 200;
/// The bytes of the quotes, commas and brackets around a text in a row.
const BYTES_PER_TEXT: usize = 8;

/// The routing decision of a request that had a choice, and the warnings of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Decision {
    /// The words of `gateway.warnings`.
    pub warnings: Vec<String>,
    /// The candidates in the order of the plan. Empty: there was one, and no model was passed over.
    pub candidates: Vec<RankedModel>,
    /// The models that the request named and that could not serve it.
    pub excluded: Vec<ExcludedModel>,
    /// How many warnings, candidates and models are left out, because a row is short.
    pub left_out: u64,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RankedModel {
    /// Its catalogue id.
    pub model: String,
    /// 0 = the requested name led to this model. k = the k-th fallback did.
    pub group: u64,
    /// The tier, which decides the order before the strategy does. For example, `away` means an open circuit.
    pub tier: String,
}

/// A model that could not serve the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ExcludedModel {
    /// Its catalogue id.
    pub model: String,
    /// The reason, as the client would read it.
    pub reason: String,
}

impl Decision {
    /// Shortens the texts, and leaves out the entries that exceed the size of a row. `left_out` counts them. The first entry
    /// without room ends what is kept, so no list has a gap.
    pub fn bound(&mut self) {
        let mut left = MAX_BYTES;
        let mut left_out = 0;
        let mut fits = |texts: &mut [&mut String]| {
            let mut bytes = 0;
            for text in texts {
                if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
                    text.truncate(end);
                }
                bytes += text.bytes().map(bytes_in_json).sum::<usize>() + BYTES_PER_TEXT;
            }
            let has_room = bytes <= left;
            left = left.saturating_sub(bytes);
            left_out += u64::from(!has_room);
            has_room
        };
        self.warnings.retain_mut(|warning| fits(&mut [warning]));
        self.candidates.retain_mut(|RankedModel { model, tier, .. }| fits(&mut [model, tier]));
        self.excluded.retain_mut(|ExcludedModel { model, reason }| fits(&mut [model, reason]));
        self.left_out = self.left_out.saturating_add(left_out);
    }

    /// Writes the decision as an array without names, in the order of the fields.
    pub(super) fn write(&self, out: &mut LineText) {
        out.raw("[[");
        for (n, warning) in self.warnings.iter().enumerate() {
            out.raw(if n == 0 { "" } else { "," });
            out.text(warning);
        }
        out.raw("],[");
        for (n, RankedModel { model, group, tier }) in self.candidates.iter().enumerate() {
            out.raw(if n == 0 { "[" } else { ",[" });
            out.text(model);
            out.next_number(*group);
            out.next_text(tier);
            out.character(']');
        }
        out.raw("],[");
        for (n, ExcludedModel { model, reason }) in self.excluded.iter().enumerate() {
            out.raw(if n == 0 { "[" } else { ",[" });
            out.text(model);
            out.next_text(reason);
            out.character(']');
        }
        out.character(']');
        out.next_number(self.left_out);
        out.character(']');
    }
}

/// The number of bytes that JSON needs for one byte of a text.
fn bytes_in_json(byte: u8) -> usize {
    match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Entry, Line};

    fn decision() -> Decision {
        Decision {
            warnings: vec!["parameter_dropped:seed".to_owned()],
            candidates: vec![
                RankedModel { model: "acme/fast".to_owned(), group: 0, tier: "able".to_owned() },
                RankedModel { model: "acme/\"plain\"".to_owned(), group: 1, tier: "away".to_owned() },
            ],
            excluded: vec![ExcludedModel {
                model: "acme/text".to_owned(),
                reason: "It takes no images.\n".to_owned(),
            }],
            left_out: 0,
        }
    }

    fn read_again(decision: Decision) -> Decision {
        let entry =
            Entry { request_id: "req_1".into(), decision: Some(Box::new(decision)), ..Entry::default() };
        let line = Line::new(entry);
        assert!(line.rest().len() < 2_048, "{}", line.rest());
        *Entry::from_line(line.json()).expect("an entry").decision.expect("a decision")
    }

    #[test]
    fn a_decision_stands_in_the_row() {
        assert_eq!(read_again(decision()), decision());
        assert_eq!(read_again(Decision::default()), Decision::default());
        let plain = Line::new(Entry { request_id: "req_1".into(), ..Entry::default() });
        assert!(
            plain.rest().ends_with("[],null,null"),
            "a plain request has no place for it: {}",
            plain.rest()
        );
    }

    #[test]
    fn a_decision_is_short_and_counts_what_it_leaves_out() {
        let control = Decision { warnings: vec!["\u{1}".repeat(200); 9], ..Decision::default() };
        assert_eq!(read_again(control).left_out, 8);
        let long = RankedModel { model: "ä".repeat(5_000), group: 0, tier: "able".to_owned() };
        let excluded = ExcludedModel { model: "x".repeat(300), reason: "y".repeat(300) };
        let all = Decision { candidates: vec![long; 20], excluded: vec![excluded; 3], ..decision() };
        let kept = read_again(all);
        assert_eq!((kept.warnings, kept.candidates.len(), kept.excluded.len()), (decision().warnings, 3, 0));
        assert_eq!(kept.left_out, 20);
        assert!(kept.candidates.iter().all(|candidate| candidate.model.chars().count() == 200));
    }
}
