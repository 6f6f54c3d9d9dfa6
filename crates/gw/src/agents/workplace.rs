//! Where a program works: its repository, branch and pull request, as the CI or git know them.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// The longest name that is handed on. The gateway replaces longer ones by a digest.
const MAX_NAME_CHARS: usize = 128;

/// The repository, the branch and the pull request of a directory, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workplace {
    pub(super) repository: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) pull_request: Option<String>,
}

impl Workplace {
    /// The workplace of this process: the variables of the CI count before git.
    pub(super) fn find() -> Self {
        let ci = Self::of_ci(&|name| env::var(name).ok().filter(|value| !value.trim().is_empty()));
        if ci.repository.is_some() && ci.branch.is_some() {
            return ci;
        }
        let git = Self::of_git(Path::new("."));
        Self {
            repository: ci.repository.or(git.repository),
            branch: ci.branch.or(git.branch),
            pull_request: ci.pull_request,
        }
    }

    /// The workplace of a job of GitHub Actions or GitLab CI.
    fn of_ci(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let number = |reference: String| {
            let number = reference.strip_prefix("refs/pull/")?.strip_suffix("/merge")?.to_owned();
            (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
        };
        let branch = variable("GITHUB_HEAD_REF").or_else(|| variable("GITHUB_REF_NAME"));
        Self {
            repository: variable("GITHUB_REPOSITORY").or_else(|| variable("CI_PROJECT_PATH")),
            branch: branch.or_else(|| variable("CI_COMMIT_REF_NAME")),
            pull_request: variable("GITHUB_REF")
                .and_then(number)
                .or_else(|| variable("CI_MERGE_REQUEST_IID")),
        }
        .printable()
    }

    /// The workplace of a directory that git knows.
    fn of_git(directory: &Path) -> Self {
        let ask = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(directory).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
            let output = git.output().ok().filter(|output| output.status.success())?;
            let text = String::from_utf8(output.stdout).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        Self {
            repository: ask(&["config", "--get", "remote.origin.url"]).and_then(|url| path_of(&url)),
            branch: ask(&["symbolic-ref", "--short", "-q", "HEAD"]),
            pull_request: None,
        }
        .printable()
    }

    /// Leaves out names that a header or a variable cannot carry.
    fn printable(self) -> Self {
        let check = |name: Option<String>| {
            let name = name.map(|name| name.trim().to_owned());
            name.filter(|name| !name.is_empty() && !name.chars().any(char::is_control))
        };
        Self {
            repository: check(self.repository),
            branch: check(self.branch),
            pull_request: check(self.pull_request),
        }
    }

    fn names(&self) -> [(&'static str, &'static str, Option<&String>); 3] {
        [
            ("MODEL_GATEWAY_REPOSITORY", "x-gateway-repository", self.repository.as_ref()),
            ("MODEL_GATEWAY_BRANCH", "x-gateway-branch", self.branch.as_ref()),
            ("MODEL_GATEWAY_PULL_REQUEST", "x-gateway-pull-request", self.pull_request.as_ref()),
        ]
    }

    /// The environment variables for the program.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        self.names().into_iter().filter_map(|(name, _, value)| Some((name, value?.clone()))).collect()
    }

    /// The headers for programs that can send some. A program may refuse to send other characters than ASCII.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let is_sendable = |value: &&String| value.is_ascii() && value.len() <= MAX_NAME_CHARS;
        let header =
            |(_, name, value): (_, _, Option<&String>)| Some((name, value.filter(is_sendable)?.clone()));
        self.names().into_iter().filter_map(header).collect()
    }
}

/// The path of a repository's address, without host, credentials and `.git`.
fn path_of(url: &str) -> Option<String> {
    let path = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => match rest.split_once('/') {
            Some((_, path)) => path,
            None => return None,
        },
        // `git@host:path`. A colon behind a slash belongs to a local path.
        _ => match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => path,
            _ => url,
        },
    };
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    (!path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_the_path_of_its_address() {
        for (url, path) in [
            ("https://github.com/acme/shop.git", Some("acme/shop")),
            ("https://user:secret@host:8443/group/sub/shop.git/", Some("group/sub/shop")),
            ("git@github.com:acme/shop.git", Some("acme/shop")),
            ("ssh://git@host:22/acme/shop", Some("acme/shop")),
            ("host:acme/shop", Some("acme/shop")),
            ("/srv/git/shop.git", Some("srv/git/shop")),
            ("file:///srv/git/shop.git", Some("srv/git/shop")),
            ("https://host", None),
            ("", None),
        ] {
            assert_eq!(path_of(url).as_deref(), path, "{url}");
        }
    }

    #[test]
    fn the_variables_of_a_ci_name_repository_branch_and_request() {
        let found = |variables: &[(&str, &str)]| {
            let find = |name: &str| {
                let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
                Some((*value).to_owned())
            };
            let Workplace { repository, branch, pull_request } = Workplace::of_ci(&find);
            [repository, branch, pull_request].map(Option::unwrap_or_default)
        };
        let github = [
            ("GITHUB_REPOSITORY", "acme/shop"),
            ("GITHUB_REF_NAME", "12/merge"),
            ("GITHUB_REF", "refs/pull/12/merge"),
            ("GITHUB_HEAD_REF", "fix"),
        ];
        assert_eq!(found(&github), ["acme/shop", "fix", "12"]);
        let push =
            [("GITHUB_REPOSITORY", "a/b"), ("GITHUB_REF_NAME", "main"), ("GITHUB_REF", "refs/heads/main")];
        assert_eq!(found(&push), ["a/b", "main", ""]);
        let gitlab =
            [("CI_PROJECT_PATH", "g/s/p"), ("CI_COMMIT_REF_NAME", "x"), ("CI_MERGE_REQUEST_IID", "4")];
        assert_eq!(found(&gitlab), ["g/s/p", "x", "4"]);
        assert_eq!(found(&[("GITHUB_HEAD_REF", "a\nb: c")]), ["", "", ""]);
    }

    #[test]
    fn headers_carry_ascii_only() {
        let place = Workplace {
            repository: Some("acme/shop".to_owned()),
            branch: Some("größer".to_owned()),
            pull_request: None,
        };
        assert_eq!(place.headers(), [("x-gateway-repository", "acme/shop".to_owned())]);
        assert_eq!(place.variables().len(), 2);
    }
}
