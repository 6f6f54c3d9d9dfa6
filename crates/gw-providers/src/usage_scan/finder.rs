//! Finds a few members of JSON documents that pass by in pieces. It keeps the text of such a member and nothing else.

use memchr::memchr2;

use super::texts::AnswerTexts;

/// The longest text of a member that is kept. The usage of an answer has a few hundred bytes.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// The longest name that is compared.
const MAX_NAME_BYTES: usize = 40;
/// The most objects and arrays inside each other. A deeper document is not read further.
const MAX_DEPTH: usize = 256;

/// The members to find in documents of one shape. An array around the documents does not count as a level.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Members of the document.
    pub(super) members: &'static [(&'static str, Slot)],
    /// Members of members of the document.
    pub(super) inner: &'static [(&'static str, &'static str, Slot)],
    /// Names of strings whose bytes are counted, wherever they stand.
    pub(super) texts: &'static [&'static str],
    /// Names of lists and objects in which all strings are counted.
    pub(super) lists: &'static [&'static str],
}

/// The meaning of a found member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The usage of the whole answer, or the latest of a stream.
    Usage,
    /// The usage at the beginning of a stream.
    Start,
    /// The pages of a document that were read.
    Pages,
    /// The service tier.
    Tier,
    /// Counts that Bedrock adds to the last chunk.
    Metrics,
    /// The only count of an answer.
    Prompt,
    /// A document in base64.
    Chunk,
    /// The type of an event.
    Kind,
}

/// The meaning of the value that follows a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Meaning {
    #[default]
    Nothing,
    Keep(Slot),
    Enter(&'static str),
    Text,
    /// A list or an object of texts, or a text.
    Texts,
}

/// A value that is being kept.
#[derive(Debug)]
struct Kept {
    slot: Slot,
    /// The depth around the value.
    depth: usize,
    bytes: Vec<u8>,
}

/// A string that is being read.
#[derive(Clone, Copy, Debug)]
struct StringState {
    is_name: bool,
    is_escaped: bool,
    is_counted: bool,
}

/// The reader of one document after another.
#[derive(Debug)]
pub(super) struct Finder {
    wanted: &'static Wanted,
    /// The open objects (true) and arrays.
    open: Vec<bool>,
    /// The depth of the members of a document.
    base: usize,
    string: Option<StringState>,
    expects_name: bool,
    name: Vec<u8>,
    meaning: Meaning,
    /// The member of the document that is being read, if members in it are wanted.
    inside: Option<&'static str>,
    kept: Option<Kept>,
    /// The depth around the list or the object in which all strings are counted.
    list: Option<usize>,
    texts: AnswerTexts,
    is_lost: bool,
}

impl Finder {
    pub(super) fn new(wanted: &'static Wanted) -> Self {
        Self {
            wanted,
            open: Vec::new(),
            base: 1,
            string: None,
            expects_name: false,
            name: Vec::new(),
            meaning: Meaning::Nothing,
            inside: None,
            kept: None,
            list: None,
            texts: AnswerTexts::default(),
            is_lost: false,
        }
    }

    /// The bytes of the counted strings so far.
    pub(super) fn text_bytes(&self) -> u64 {
        self.texts.bytes()
    }

    /// Begins a new document.
    pub(super) fn reset(&mut self) {
        self.open.clear();
        (self.string, self.expects_name, self.meaning) = (None, false, Meaning::Nothing);
        (self.inside, self.kept, self.list, self.is_lost) = (None, None, None, false);
        self.texts.end_document();
    }

    /// Reads the next piece. `found` gets each wanted value as JSON.
    pub(super) fn feed(&mut self, mut piece: &[u8], found: &mut dyn FnMut(Slot, &[u8])) {
        while let Some((&byte, rest)) = piece.split_first() {
            if self.is_lost {
                return;
            }
            if let Some(state) = self.string {
                piece = self.in_string(state, piece);
                continue;
            }
            self.outside(byte, found);
            piece = rest;
        }
    }

    /// Reads on in a string. Returns the rest of the piece.
    fn in_string<'p>(&mut self, mut state: StringState, piece: &'p [u8]) -> &'p [u8] {
        if state.is_escaped {
            state.is_escaped = false;
            self.string = Some(state);
            return self.take_string(state, piece, 1);
        }
        match memchr2(b'"', b'\\', piece) {
            None => self.take_string(state, piece, piece.len()),
            Some(at) if piece.get(at) == Some(&b'\\') => {
                state.is_escaped = true;
                self.string = Some(state);
                self.take_string(state, piece, at + 1)
            }
            Some(at) => {
                let rest = self.take_string(state, piece, at);
                self.keep(b"\"");
                self.string = None;
                rest.get(1..).unwrap_or_default()
            }
        }
    }

    /// Takes the next bytes of a string.
    fn take_string<'p>(&mut self, state: StringState, piece: &'p [u8], count: usize) -> &'p [u8] {
        let (taken, rest) = piece.split_at(count.min(piece.len()));
        if state.is_name && self.name.len() <= MAX_NAME_BYTES {
            self.name.extend(taken.iter().take(MAX_NAME_BYTES + 1));
        }
        if state.is_counted {
            self.texts.add(taken.len());
        }
        self.keep(taken);
        rest
    }

    fn outside(&mut self, byte: u8, found: &mut dyn FnMut(Slot, &[u8])) {
        match byte {
            b'"' => {
                let is_text = matches!(self.meaning, Meaning::Text | Meaning::Texts);
                let is_counted = is_text || self.list.is_some() && !self.expects_name;
                self.begin_value();
                self.keep(b"\"");
                self.string = Some(StringState { is_name: self.expects_name, is_escaped: false, is_counted });
                if self.expects_name {
                    self.name.clear();
                } else {
                    self.meaning = Meaning::Nothing;
                }
            }
            b'{' | b'[' => self.begin_container(byte == b'{'),
            b'}' | b']' => {
                self.end_value(found);
                self.open.pop();
                self.keep(&[byte]);
                self.end_value(found);
                if self.open.len() <= self.base {
                    self.inside = None;
                }
                self.list = self.list.filter(|depth| *depth < self.open.len());
                (self.expects_name, self.meaning) = (false, Meaning::Nothing);
            }
            b',' => {
                self.end_value(found);
                self.keep(b",");
                self.expects_name = self.open.last() == Some(&true);
                self.meaning = Meaning::Nothing;
            }
            b':' => {
                self.keep(b":");
                if self.expects_name {
                    self.expects_name = false;
                    self.meaning = self.meaning_of_name();
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                self.begin_value();
                self.keep(&[byte]);
                self.meaning = Meaning::Nothing;
            }
        }
    }

    fn begin_container(&mut self, is_object: bool) {
        if self.open.is_empty() {
            self.base = if is_object { 1 } else { 2 };
        }
        self.begin_value();
        self.keep(if is_object { b"{" } else { b"[" });
        if let Meaning::Enter(member) = self.meaning
            && is_object
        {
            self.inside = Some(member);
        }
        if self.meaning == Meaning::Texts {
            self.list = self.list.or(Some(self.open.len()));
        }
        (self.expects_name, self.meaning) = (is_object, Meaning::Nothing);
        self.is_lost = self.open.len() >= MAX_DEPTH;
        self.open.push(is_object);
    }

    /// Begins to keep the value that starts here, if it is wanted.
    fn begin_value(&mut self) {
        if let Meaning::Keep(slot) = self.meaning
            && self.kept.is_none()
        {
            self.kept = Some(Kept { slot, depth: self.open.len(), bytes: Vec::new() });
        }
    }

    /// Hands over the kept value if it ends here.
    fn end_value(&mut self, found: &mut dyn FnMut(Slot, &[u8])) {
        if let Some(kept) = self.kept.take_if(|kept| kept.depth >= self.open.len())
            && kept.bytes.len() <= MAX_KEPT_BYTES
        {
            match kept.slot {
                Slot::Kind => self.texts.set_type(&kept.bytes),
                slot => found(slot, &kept.bytes),
            }
        }
    }

    /// Adds to the kept value. One that is too long is kept up to a byte more, by which its end finds that out.
    fn keep(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            let room = (MAX_KEPT_BYTES + 1).saturating_sub(kept.bytes.len());
            kept.bytes.extend(bytes.iter().take(room));
        }
    }

    fn meaning_of_name(&self) -> Meaning {
        if self.kept.is_some() {
            return Meaning::Nothing;
        }
        let name = &*self.name;
        let is = |wanted: &str| wanted.as_bytes() == name;
        let (depth, Wanted { members, inner, texts, lists }) = (self.open.len(), self.wanted);
        if depth == self.base {
            if let Some((_, slot)) = members.iter().find(|(wanted, _)| is(wanted)) {
                return Meaning::Keep(*slot);
            }
            if let Some((outer, ..)) = inner.iter().find(|(outer, ..)| is(outer)) {
                return Meaning::Enter(outer);
            }
        }
        let of_inside = |row: &&(&str, &str, Slot)| self.inside == Some(row.0) && is(row.1);
        if depth == self.base + 1
            && let Some((_, _, slot)) = inner.iter().find(of_inside)
        {
            return Meaning::Keep(*slot);
        }
        match () {
            () if lists.iter().any(|wanted| is(wanted)) => Meaning::Texts,
            () if texts.iter().any(|wanted| is(wanted)) => Meaning::Text,
            () => Meaning::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WANTED: Wanted = Wanted {
        members: &[("usage", Slot::Usage), ("tier", Slot::Tier)],
        inner: &[("response", "usage", Slot::Start)],
        texts: &["text"],
        lists: &["words"],
    };

    fn found(pieces: &[&[u8]]) -> (Vec<(Slot, String)>, u64) {
        let (mut finder, mut all) = (Finder::new(&WANTED), Vec::new());
        for piece in pieces {
            finder.feed(piece, &mut |slot, text| {
                all.push((slot, String::from_utf8(text.to_vec()).unwrap()));
            });
        }
        (all, finder.text_bytes())
    }

    #[test]
    fn wanted_members_are_found_at_every_cut() {
        let document =
            br#" {"a":{"usage":1,"text":"x\"y"},"usage": {"n":[1,{"m":"}"}],"text":"no"} ,"response":
            {"b":{"usage":2},"usage":{"k":7}},"tier":"fla\"sh","list":[{"usage":3}],"text":"end"}"#;
        let wanted = vec![
            (Slot::Usage, r#"{"n":[1,{"m":"}"}],"text":"no"}"#.to_owned()),
            (Slot::Start, r#"{"k":7}"#.to_owned()),
            (Slot::Tier, r#""fla\"sh""#.to_owned()),
        ];
        assert_eq!(found(&[document]), (wanted.clone(), 7));
        for cut in 0..document.len() {
            let (one, other) = document.split_at(cut);
            assert_eq!(found(&[one, other]).0, wanted, "{cut}");
        }
        let bytes: Vec<&[u8]> = document.chunks(1).collect();
        assert_eq!(found(&bytes).0, wanted);
    }

    #[test]
    fn all_strings_of_a_list_count_wherever_they_stand() {
        let document = br#"{"words":["ab",{"k":"cd","n":5,"more":["e"]}],"other":["f"],"deep":{"words":"gh"},"list":["i"]}"#;
        assert_eq!(found(&[document]).1, 7);
        assert_eq!(found(&document.chunks(1).collect::<Vec<_>>()).1, 7);
    }

    #[test]
    fn an_array_around_the_documents_is_no_level_and_scalars_end_where_they_end() {
        let (all, _) = found(&[br#"[{"usage":{"a":1}},{"usage":12},{"tier":null}]"#]);
        let texts: Vec<&str> = all.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, [r#"{"a":1}"#, "12", "null"]);
    }

    #[test]
    fn nonsense_and_depth_find_nothing_and_memory_is_bounded() {
        for text in ["", "}}}", "]", "\"", "{\"usage\":", "{:::}", "[[[", "nonsense", "{\"usage\"}"] {
            assert!(found(&[text.as_bytes()]).0.is_empty(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(found(&[deep.as_bytes(), br#"{"usage":1}"#]).0.is_empty());
        let long = format!(r#"{{"usage":"{}","tier":1}}"#, "x".repeat(1 << 20));
        assert_eq!(found(&[long.as_bytes()]).0, [(Slot::Tier, "1".to_owned())]);
    }
}
