//! Problems of a configuration and their locations in the file.

use std::collections::BTreeSet;
use std::fmt;

/// Names in `allow_members` of providers that the gateway accepted before: the provider and the name. A later release may take
/// them for misspellings, and must start with them.
pub type AcceptedMembers = BTreeSet<(String, String)>;

/// A setting that cannot be used. It holds no value, so it cannot show a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The location.
    pub location: Location,
    /// The key, such as `providers[0].base_url`. Empty when the text is not TOML.
    pub path: String,
    /// The fault, such as `is missing`.
    pub message: String,
    /// The remedy, if one is known.
    pub hint: Option<String>,
}

/// A location in the file, or an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path of the file as the user wrote it, or the name of the variable.
    pub source: String,
    /// The line, from 1; 0 means the whole source.
    pub line: usize,
    /// The column in characters, from 1; 0 means the whole source.
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
        write!(f, "{}: ", self.location)?;
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

/// The position of a value, before its line and column are computed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Position {
    /// The source as a whole.
    Whole,
    /// The bytes from the start of the text.
    Offset(usize),
    /// An environment variable.
    Variable(String),
}

/// Collects problems in any order.
#[derive(Debug, Default)]
pub(super) struct ProblemReport {
    /// The number of searches for a hint.
    searches: usize,
    faults: Vec<(Position, Problem)>,
    /// The names that are no misspellings, because they are in use.
    accepted: AcceptedMembers,
}

/// The most searches for a hint. Each search walks over all names of the file.
const MAX_SEARCHES: usize = 100;

impl ProblemReport {
    /// An empty report, for a text with names that were accepted before.
    pub(super) fn accepting(accepted: AcceptedMembers) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// Whether the provider's `allow_members` had this name before.
    pub(super) fn is_accepted(&self, provider: &str, member: &str) -> bool {
        // A tuple of borrowed texts cannot be looked up, and few names are accepted.
        self.accepted.iter().any(|(of, name)| of == provider && name == member)
    }

    /// Searches for a hint, unless there were too many searches.
    pub(super) fn search(&mut self, search: impl FnOnce() -> Option<String>) -> Option<String> {
        self.searches += 1;
        if self.searches <= MAX_SEARCHES { search() } else { None }
    }

    /// Adds a problem.
    pub(super) fn fault(&mut self, at: &Position, path: &str, message: impl Into<String>) {
        self.fault_with_hint(at, path, message, None);
    }

    /// Adds a problem, with its remedy if one is known.
    pub(super) fn fault_with_hint(
        &mut self,
        at: &Position,
        path: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem { location: unlocated(), path: path.to_owned(), message: message.into(), hint };
        self.faults.push((at.clone(), problem));
    }

    /// Drops the problems at or after this offset.
    pub(super) fn keep_before(&mut self, offset: usize) {
        self.faults.retain(|(at, _)| *at < Position::Offset(offset));
    }

    /// Sorts everything by position and computes lines and columns. Problems of the environment come last.
    pub(super) fn finish(self, text: &str, source: &str) -> Vec<Problem> {
        let Self { mut faults, .. } = self;
        faults.sort_by(|a, b| a.0.cmp(&b.0));
        let mut cursor = Cursor::new(text, source);
        faults.into_iter().map(|(at, p)| Problem { location: cursor.locate(&at), ..p }).collect()
    }
}

/// The locations of positions, in the order of the positions.
pub(super) fn locate(positions: &[&Position], text: &str, source: &str) -> Vec<Location> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|at| positions.get(*at));
    let mut cursor = Cursor::new(text, source);
    let mut locations = vec![unlocated(); positions.len()];
    for at in order {
        if let (Some(position), Some(location)) = (positions.get(at), locations.get_mut(at)) {
            *location = cursor.locate(position);
        }
    }
    locations
}

/// A placeholder until [`ProblemReport::finish`] computes the location.
fn unlocated() -> Location {
    Location { source: String::new(), line: 0, column: 0 }
}

/// Computes the lines and columns of positions that come in order, in one walk over the text. Line feeds end lines, and
/// columns count characters.
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
