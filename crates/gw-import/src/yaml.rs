//! Reads YAML and JSON (which YAML contains) into a tree that knows its lines. The tree is bounded: an alias counts with all
//! that it repeats.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::draft::REFERENCE;

/// The most values of a file.
const MAX_NODES: usize = 100_000;
/// The most levels of a file.
const MAX_DEPTH: usize = 64;

/// A value with the line on which it begins.
#[derive(Clone, Debug)]
pub(super) struct SourceNode {
    /// From 1.
    pub(super) line: usize,
    pub(super) data: Data,
}

/// The kinds of values.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Null,
    Bool(bool),
    /// A decimal number as it is written, without `_`.
    Number(String),
    Text(String),
    List(Vec<SourceNode>),
    Map(Vec<(String, SourceNode)>),
}

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum YamlError {
    #[error("line {line}: neither YAML nor JSON: {message}")]
    Syntax { line: usize, message: String },
    #[error("line {0}: a key is a list or a map")]
    Key(usize),
    #[error("line {0}: an alias has no anchor before it")]
    Alias(usize),
    #[error("line {0}: the file has more than 100,000 values or 64 levels")]
    Large(usize),
    #[error("the file is empty")]
    Empty,
}

/// A list or a map that is not complete.
struct Frame {
    line: usize,
    anchor: usize,
    kind: FrameKind,
}

enum FrameKind {
    List(Vec<SourceNode>),
    Map(Vec<(String, SourceNode)>, Option<String>),
}

/// Reads the first document of a text.
pub(super) fn parse(text: &str) -> Result<SourceNode, YamlError> {
    let mut loader = Loader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError::Syntax {
            line: error.marker().line(),
            message: error.info().to_owned(),
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        loader.take(event, span.start.line())?;
    }
    loader.root.ok_or(YamlError::Empty)
}

#[derive(Default)]
struct Loader {
    open: Vec<Frame>,
    anchors: BTreeMap<usize, (SourceNode, usize)>,
    count: usize,
    root: Option<SourceNode>,
}

impl Loader {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                self.put(SourceNode { line, data: scalar(&text, style) }, anchor, 1)
            }
            Event::Alias(anchor) => {
                let (node, size) = self.anchors.get(&anchor).cloned().ok_or(YamlError::Alias(line))?;
                self.put(SourceNode { line, ..node }, 0, size)
            }
            Event::SequenceStart(anchor, _) => self.begin(line, anchor, FrameKind::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(line, anchor, FrameKind::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Frame { line, anchor, kind }) = self.open.pop() else { return Ok(()) };
                let data = match kind {
                    FrameKind::List(items) => Data::List(items),
                    FrameKind::Map(pairs, _) => Data::Map(merged(pairs)),
                };
                self.put(SourceNode { line, data }, anchor, 1)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: usize, anchor: usize, kind: FrameKind) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::Large(line));
        }
        self.open.push(Frame { line, anchor, kind });
        Ok(())
    }

    /// Puts a complete value into the list or the map that is open.
    fn put(&mut self, node: SourceNode, anchor: usize, size: usize) -> Result<(), YamlError> {
        self.count += size;
        if self.count > MAX_NODES {
            return Err(YamlError::Large(node.line));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), node.size()));
        }
        match self.open.last_mut() {
            None => _ = self.root.get_or_insert(node),
            Some(Frame { kind: FrameKind::List(items), .. }) => items.push(node),
            Some(Frame { kind: FrameKind::Map(pairs, key), .. }) => match key.take() {
                Some(name) => pairs.push((name, node)),
                None => *key = Some(node.text().ok_or(YamlError::Key(node.line))?),
            },
        }
        Ok(())
    }
}

/// Adds the members of `<<` that the map does not have itself.
fn merged(pairs: Vec<(String, SourceNode)>) -> Vec<(String, SourceNode)> {
    let (merges, mut own): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(name, _)| name == "<<");
    for (_, merge) in merges {
        if let Data::Map(pairs) = merge.data {
            for (name, node) in pairs {
                if own.iter().all(|(known, _)| *known != name) {
                    own.push((name, node));
                }
            }
        }
    }
    own
}

/// The value of a scalar, as PyYAML reads it.
fn scalar(text: &str, style: ScalarStyle) -> Data {
    let text = text.replace(REFERENCE, "\u{fffd}");
    let text = text.as_str();
    if style != ScalarStyle::Plain {
        return Data::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Data::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Data::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Data::Bool(false),
        _ => {
            let plain = text.replace('_', "");
            let is_number = plain.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
                && plain.bytes().any(|byte| byte.is_ascii_digit())
                && plain.parse::<f64>().is_ok_and(f64::is_finite);
            if is_number {
                Data::Number(plain.trim_start_matches('+').to_owned())
            } else {
                Data::Text(text.to_owned())
            }
        }
    }
}

impl SourceNode {
    fn size(&self) -> usize {
        1 + match &self.data {
            Data::List(items) => items.iter().map(Self::size).sum(),
            Data::Map(pairs) => pairs.iter().map(|(_, node)| node.size()).sum(),
            _ => 0,
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<String> {
        match &self.data {
            Data::Text(text) | Data::Number(text) => Some(text.clone()),
            Data::Bool(value) => Some(value.to_string()),
            Data::Null | Data::List(_) | Data::Map(_) => None,
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match &self.data {
            Data::Bool(value) => Some(*value),
            Data::Text(text) => text.to_ascii_lowercase().parse().ok(),
            _ => None,
        }
    }

    /// A number that is not negative.
    pub(super) fn number(&self) -> Option<f64> {
        match &self.data {
            Data::Number(text) | Data::Text(text) => text.parse().ok().filter(|number| *number >= 0.0),
            _ => None,
        }
    }

    /// A whole number within a range.
    pub(super) fn whole(&self, min: u64, max: u64) -> Option<u64> {
        self.text()?.parse().ok().filter(|number| (min..=max).contains(number))
    }

    /// A number of seconds as milliseconds, within the range of a timeout.
    pub(super) fn milliseconds(&self) -> Option<u64> {
        let ms = (self.number()? * 1000.0).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
        let whole = (1.0..=86_400_000.0).contains(&ms).then_some(ms as u64);
        whole
    }

    pub(super) fn list(&self) -> &[Self] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    pub(super) fn pairs(&self) -> &[(String, Self)] {
        match &self.data {
            Data::Map(pairs) => pairs,
            _ => &[],
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.pairs().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, REFERENCE, YamlError, parse};

    #[test]
    fn values_have_types_and_lines() {
        let text = "a: 20_000\nb:\n  - x\n  - 'yes'\n  - yes\nc: {d: 1.5e-7, e: ~}\nf: sk-1\n";
        let root = parse(text).unwrap();
        assert!(matches!(&root.get("a").unwrap().data, Data::Number(text) if text == "20000"));
        let b = root.get("b").unwrap().list();
        assert_eq!(b.iter().map(|node| node.line).collect::<Vec<_>>(), [3, 4, 5]);
        assert!(matches!(&b[1].data, Data::Text(text) if text == "yes"));
        assert_eq!(b[2].bool(), Some(true));
        assert_eq!(root.get("c").unwrap().get("d").unwrap().number(), Some(1.5e-7));
        assert!(matches!(root.get("c").unwrap().get("e").unwrap().data, Data::Null));
        assert_eq!(root.get("f").unwrap().text().unwrap(), "sk-1");
    }

    #[test]
    fn no_text_of_the_source_has_the_character_of_references() {
        let root = parse("\"a\\uFDD0{K}\": [\"\\uFDD0{HOME}\", x\u{fdd0}HOME]\n").unwrap();
        let (name, list) = root.pairs().first().unwrap();
        assert!(!name.contains(REFERENCE), "{name}");
        let texts: Vec<_> = list.list().iter().filter_map(super::SourceNode::text).collect();
        assert!(!texts.is_empty() && !texts.concat().contains(REFERENCE), "{texts:?}");
    }

    #[test]
    fn anchors_are_repeated_and_merged() {
        let root = parse("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\nc: *x\n").unwrap();
        let b = root.get("b").unwrap();
        assert_eq!((b.get("k").unwrap().number(), b.get("l").unwrap().number()), (Some(1.0), Some(3.0)));
        assert_eq!(root.get("c").unwrap().get("l").unwrap().number(), Some(2.0));
    }

    #[test]
    fn a_bomb_of_aliases_and_a_deep_file_are_refused() {
        let mut bomb = "a0: &a0 [x]\n".to_owned();
        for at in 1..12 {
            let repeated = vec![format!("*a{}", at - 1); 10].join(", ");
            bomb += &format!("a{at}: &a{at} [{repeated}]\n");
        }
        assert!(matches!(parse(&bomb), Err(YamlError::Large(_))));
        assert!(matches!(parse(&"[".repeat(100)), Err(YamlError::Large(_))));
        assert!(matches!(parse("a: [1"), Err(YamlError::Syntax { .. })));
        assert!(matches!(parse("# nothing\n"), Err(YamlError::Empty)));
    }
}
