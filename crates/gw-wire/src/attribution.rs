//! The attribution of a request: its end user, tags, repository, branch and pull request.
//!
//! The gateway keeps them for itself. The members of a body that hold tags are therefore taken out before the body is parsed.

mod members;

pub use self::members::{BodyTags, take_tags};

/// The most tags of a request.
pub const MAX_TAGS: usize = 16;
/// The most characters of a tag.
pub const MAX_TAG_CHARS: usize = 64;

/// A kind of attribution, by which reports are grouped and filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Dimension {
    EndUser,
    Tag,
    Repository,
    Branch,
    PullRequest,
}

impl Dimension {
    /// All kinds, in the order in which rows show them.
    pub const ALL: [Self; 5] = [Self::EndUser, Self::Tag, Self::Repository, Self::Branch, Self::PullRequest];

    /// The name in reports, filters and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndUser => "end_user",
            Self::Tag => "tag",
            Self::Repository => "repository",
            Self::Branch => "branch",
            Self::PullRequest => "pull_request",
        }
    }
}

/// The attribution of a request that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The end user on whose behalf the caller acts.
    pub end_user: Option<Box<str>>,
    /// The tags, each once.
    pub tags: Vec<Box<str>>,
    /// The repository in which the request was made, such as `acme/shop`.
    pub repository: Option<Box<str>>,
    /// The branch of the repository.
    pub branch: Option<Box<str>>,
    /// The pull request that the branch belongs to.
    pub pull_request: Option<Box<str>>,
}

impl Attribution {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// The name of a kind that has at most one. None for tags.
    #[must_use]
    pub fn name(&self, dimension: Dimension) -> Option<&str> {
        let name = match dimension {
            Dimension::EndUser => &self.end_user,
            Dimension::Tag => return None,
            Dimension::Repository => &self.repository,
            Dimension::Branch => &self.branch,
            Dimension::PullRequest => &self.pull_request,
        };
        name.as_deref()
    }

    /// Whether the request has this name of this kind.
    #[must_use]
    pub fn has(&self, dimension: Dimension, name: &str) -> bool {
        self.names().any(|known| known == (dimension, name))
    }

    /// Every name with its kind.
    pub fn names(&self) -> impl Iterator<Item = (Dimension, &str)> {
        Dimension::ALL.into_iter().flat_map(|dimension| {
            let tags: &[Box<str>] = if dimension == Dimension::Tag { &self.tags } else { &[] };
            let tags = tags.iter().map(|tag| &**tag);
            self.name(dimension).into_iter().chain(tags).map(move |name| (dimension, name))
        })
    }

    /// Adds a tag. False: it is too long, not printable, or there is no room for it. A tag that is there already is no other one.
    #[must_use]
    pub fn add_tag(&mut self, tag: &str) -> bool {
        let tag = tag.trim();
        if tag.is_empty() || self.tags.iter().any(|known| **known == *tag) {
            return true;
        }
        let fits = tag.chars().count() <= MAX_TAG_CHARS && tag.chars().all(is_printable);
        let has_room = fits && self.tags.len() < MAX_TAGS;
        if has_room {
            self.tags.push(tag.into());
        }
        has_room
    }
}

/// Whether a character is neither a control character nor an invisible one that changes how its neighbours are shown.
#[must_use]
pub fn is_printable(character: char) -> bool {
    let is_invisible = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !character.is_control() && !is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_trimmed_kept_once_and_bounded() {
        let mut attribution = Attribution::default();
        for tag in [" a ", "a", "", "  ", "ä b"] {
            assert!(attribution.add_tag(tag), "{tag:?}");
        }
        assert_eq!(attribution.tags, ["a".into(), "ä b".into()] as [Box<str>; 2]);
        for tag in ["a\nb", "a\u{202e}b", &"x".repeat(65)] {
            assert!(!attribution.add_tag(tag), "{tag:?}");
        }
        assert!(attribution.add_tag(&"ü".repeat(64)));
        for number in 0..13 {
            assert!(attribution.add_tag(&number.to_string()));
        }
        assert!(!attribution.add_tag("one too many") && attribution.add_tag("a"));
        assert_eq!(attribution.tags.len(), MAX_TAGS);
    }

    #[test]
    fn names_come_with_their_kinds() {
        let attribution = Attribution {
            end_user: Some("ann".into()),
            tags: vec!["a".into(), "b".into()],
            branch: Some("main".into()),
            ..Attribution::default()
        };
        let names: Vec<_> = attribution.names().map(|(dimension, name)| (dimension.name(), name)).collect();
        assert_eq!(names, [("end_user", "ann"), ("tag", "a"), ("tag", "b"), ("branch", "main")]);
        assert!(attribution.has(Dimension::Tag, "b") && !attribution.has(Dimension::Branch, "b"));
        assert!(Attribution::default().is_empty() && !attribution.is_empty());
    }
}
