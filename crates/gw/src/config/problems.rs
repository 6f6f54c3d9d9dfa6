//! Where in the configuration something is said, and the two things said about it: problems and later features.

use std::fmt;

/// A setting that cannot be used as it is written. Never carries a value, so never a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Location,
    /// The key, as in `providers[0].base_url`; empty when the text is not TOML.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// A setting that is right, of a feature that this version does not have: `serve` refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterFeature {
    /// Where.
    pub place: Location,
    /// The key.
    pub path: String,
    /// What is missing, in a sentence.
    pub sentence: String,
}

/// A spot in the file, or an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file as it was named, or the variable's name.
    pub source: String,
    /// From 1; 0 when the source as a whole is meant.
    pub line: usize,
    /// From 1, in characters; 0 when the source as a whole is meant.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LaterFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.path, self.sentence)
    }
}

/// The place of something that was read, before it is turned into a line and a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Position {
    /// The source as a whole.
    Whole,
    /// Bytes from the start of the text.
    Offset(usize),
    /// An environment variable.
    Variable(String),
}

/// Collects what is found, in any order.
#[derive(Debug, Default)]
pub(super) struct ProblemReport {
    /// How often a hint was looked for.
    searches: usize,
    faults: Vec<(Position, Problem)>,
    later: Vec<(Position, LaterFeature)>,
}

/// So many faults get a hint that has to be searched for among names of the file: each search walks over all of them.
const MAX_SEARCHES: usize = 100;

impl ProblemReport {
    /// Looks for a hint, unless there were many searches before.
    pub(super) fn search(&mut self, search: impl FnOnce() -> Option<String>) -> Option<String> {
        self.searches += 1;
        if self.searches <= MAX_SEARCHES { search() } else { None }
    }

    /// Notes a problem.
    pub(super) fn fault(&mut self, at: &Position, path: &str, message: impl Into<String>) {
        self.fault_with_hint(at, path, message, None);
    }

    /// Notes a problem and, where there is one, its remedy.
    pub(super) fn fault_with_hint(
        &mut self,
        at: &Position,
        path: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem { place: nowhere(), path: path.to_owned(), message: message.into(), hint };
        self.faults.push((at.clone(), problem));
    }

    /// Notes a feature of a later version.
    pub(super) fn later(&mut self, at: &Position, path: &str, sentence: impl Into<String>) {
        let later = LaterFeature { place: nowhere(), path: path.to_owned(), sentence: sentence.into() };
        self.later.push((at.clone(), later));
    }

    /// Drops the problems that are not wholly before this spot.
    pub(super) fn keep_before(&mut self, offset: usize) {
        self.faults.retain(|(at, _)| *at < Position::Offset(offset));
    }

    /// Everything by position, with lines and columns; what the environment says comes last.
    pub(super) fn finish(self, text: &str, source: &str) -> (Vec<Problem>, Vec<LaterFeature>) {
        let Self { mut faults, mut later, .. } = self;
        faults.sort_by(|a, b| a.0.cmp(&b.0));
        later.sort_by(|a, b| a.0.cmp(&b.0));
        let mut cursor = Cursor::new(text, source);
        let faults = faults.into_iter().map(|(at, p)| Problem { place: cursor.locate(&at), ..p }).collect();
        let mut cursor = Cursor::new(text, source);
        let later =
            later.into_iter().map(|(at, l)| LaterFeature { place: cursor.locate(&at), ..l }).collect();
        (faults, later)
    }
}

/// Stands in until [`ProblemReport::finish`] knows the text.
fn nowhere() -> Location {
    Location { source: String::new(), line: 0, column: 0 }
}

/// Finds the lines and columns of places that come in order, in one walk over the text. Lines are counted by line
/// feeds, columns by characters, both from 1.
struct Cursor<'t> {
    source: &'t str,
    rest: &'t str,
    offset: usize,
    line: usize,
    column: usize,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str, source: &'t str) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { source, rest, offset: text.len() - rest.len(), line: 1, column: 1 }
    }

    fn locate(&mut self, at: &Position) -> Location {
        let offset = match at {
            Position::Whole => return Location { source: self.source.to_owned(), line: 0, column: 0 },
            Position::Variable(name) => return Location { source: name.clone(), line: 0, column: 0 },
            Position::Offset(offset) => *offset,
        };
        while self.offset < offset {
            let mut characters = self.rest.chars();
            match characters.next() {
                Some('\n') => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
            self.offset += self.rest.len() - characters.as_str().len();
            self.rest = characters.as_str();
        }
        Location { source: self.source.to_owned(), line: self.line, column: self.column }
    }
}
