//! The size of what a model wrote into a part of an answer that the gateway hands on without reading it.

use gw_wire::event::Event;
use gw_wire::json::{Kind, View};
use gw_wire::usage::text_bytes;

use super::sse_adapter::EventSink;

/// The most objects and arrays inside each other that are searched.
const MAX_DEPTH: usize = 12;

/// Members that a model does not write: names and states that the API gives, encrypted or encoded bytes, and the results of tools.
/// Results are part of the next prompt that the model reads.
const OTHERS: [&str; 38] = [
    "annotations",
    "approval_request_id",
    "author",
    "background",
    "call_id",
    "caller",
    "container_id",
    "created_by",
    "data",
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "environment",
    "error",
    "execution",
    "file_id",
    "id",
    "item_id",
    "logprobs",
    "media_type",
    "namespace",
    "output",
    "output_format",
    "outputs",
    "page_age",
    "phase",
    "quality",
    "result",
    "results",
    "role",
    "server_label",
    "server_name",
    "signature",
    "sources",
    "status",
    "tool_use_id",
    "tools",
    "type",
];

/// The size of all texts in a value, as [`text_bytes`] counts them.
pub(in crate::adapters) fn texts_in(value: View<'_>) -> u64 {
    texts(value, MAX_DEPTH)
}

fn texts(value: View<'_>, depth: usize) -> u64 {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    match value.kind() {
        Kind::String => value.string().map_or(0, |text| text_bytes(&text)),
        Kind::Array => value.elements().map(|element| texts(element, depth)).sum(),
        Kind::Object => {
            let of_member = |(name, member): (View<'_>, View<'_>)| match name.string() {
                Some(name) if OTHERS.binary_search(&&*name).is_err() => texts(member, depth),
                _ => 0,
            };
            value.members().map(of_member).sum()
        }
        Kind::Null | Kind::Boolean | Kind::Integer | Kind::Decimal => 0,
    }
}

/// The size of the text in one part of an answer so far. A part may come in pieces, as a whole, or as both, and counts once.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::adapters) struct WrittenPart {
    pieces: u64,
    counted: u64,
}

impl WrittenPart {
    /// Takes the next piece, and reports what is new.
    pub(in crate::adapters) fn piece(&mut self, bytes: u64, sink: EventSink<'_>) {
        self.pieces = self.pieces.saturating_add(bytes);
        self.whole(self.pieces, sink);
    }

    /// Takes the size of all that the part has, and reports what is new.
    pub(in crate::adapters) fn whole(&mut self, bytes: u64, sink: EventSink<'_>) {
        report(bytes.saturating_sub(self.counted), sink);
        self.counted = self.counted.max(bytes);
    }
}

/// Reports text of this size.
pub(in crate::adapters) fn report(bytes: u64, sink: EventSink<'_>) {
    if bytes > 0 {
        sink(Event::Written { bytes });
    }
}

#[cfg(test)]
mod tests {
    use gw_wire::event::Event;
    use gw_wire::json::View;

    use super::{OTHERS, WrittenPart, texts_in};

    fn size(json: &str) -> u64 {
        texts_in(View::new(json))
    }

    #[test]
    fn texts_count_and_the_names_around_them_do_not() {
        assert!(OTHERS.is_sorted());
        assert_eq!(
            size(r#"{"type":"exec","command":["ls","-l"],"env":{"A":"b"},"timeout_ms":5,"user":null}"#),
            5
        );
        assert_eq!(size(r#"{"text":"ä","signature":"Eq+/=","encrypted_content":"xyz","output":"abc"}"#), 2);
        assert_eq!(size(r#""\n\"""#), 2);
        assert_eq!(size("[1,true,null]"), 0);
        let deep = format!("{}\"text\"{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(size(&deep), 0);
    }

    #[test]
    fn a_part_in_pieces_and_as_a_whole_counts_once() {
        let mut counted = Vec::new();
        let mut sink = |event: Event<'_>| counted.push(event.answer_bytes());
        let mut part = WrittenPart::default();
        part.whole(4, &mut sink);
        part.piece(3, &mut sink);
        part.piece(3, &mut sink);
        part.whole(10, &mut sink);
        part.whole(10, &mut sink);
        assert_eq!(counted, [4, 2, 4]);
    }
}
