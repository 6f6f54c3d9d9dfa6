//! The documentation as a book: every page is in the table of contents, every link leads somewhere, and every command and
//! option that a page names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gw_testkit::Launch;

use crate::harness::binary;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of the book by their names.
fn pages() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(root().join("docs")).expect("docs/").filter_map(Result::ok);
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|path| (name(&path), read(&path))).collect()
}

/// The text without fenced blocks.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The targets of links, without links in code.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let bare: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("x");
    bare.match_indices("](")
        .filter_map(|(at, _)| bare[at + 2..].split_once(')').map(|(to, _)| to.to_owned()))
        .collect()
}

/// The anchors of the headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|count| format!("{anchor}-{count}"));
        let unused = std::iter::once(anchor.clone()).chain(again).find(|name| !found.contains(name));
        found.insert(unused.expect("a name"));
    }
    found
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let pages = pages();
    let listed = links(&pages["SUMMARY.md"]);
    let expected: BTreeSet<&str> =
        pages.keys().map(String::as_str).filter(|page| *page != "SUMMARY.md").collect();
    assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    assert_eq!(listed.len(), expected.len(), "a page is listed twice");
    let book = read(&root().join("docs/book.toml"));
    assert!(book.contains("src = \".\""), "{book}");
}

#[test]
fn the_start_page_lists_each_page_once_and_numbers_the_tasks() {
    let pages = pages();
    let start = &pages["README.md"];
    let rows = start.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(". "));
    let numbers: Vec<usize> = rows.filter_map(|(number, _)| number.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    assert!(!numbers.is_empty(), "{start}");
    let mut listed: Vec<String> = links(start).into_iter().filter(|link| !link.contains('#')).collect();
    listed.sort();
    let own = ["README.md", "SUMMARY.md"];
    let expected: Vec<&str> = pages.keys().map(String::as_str).filter(|page| !own.contains(page)).collect();
    assert_eq!(listed, expected);
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let others = others.into_iter().map(|name| (PathBuf::from(name), read(&root().join(name))));
    let docs = pages().into_iter().map(|(name, text)| (Path::new("docs").join(name), text));
    for (page, text) in docs.chain(others) {
        for link in links(&text) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = page.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            // The book holds only the pages of docs/.
            let leaves_book = page.starts_with("docs") && file.starts_with("..");
            let is_there = root().join(&target).exists();
            let has_anchor =
                anchor.is_empty() || (is_there && anchors(&read(&root().join(&target))).contains(anchor));
            if leaves_book || !is_there || !has_anchor {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A command of the documentation: its words after the program's name.
struct Written {
    page: String,
    text: String,
}

/// Every `model-gateway …` in a shell block or in code within a line.
fn commands() -> Vec<Written> {
    let mut found = Vec::new();
    let readme = ("README.md".to_owned(), read(&root().join("README.md")));
    for (page, text) in pages().into_iter().chain([readme]) {
        let spans: Vec<String> = prose(&text).split('`').skip(1).step_by(2).map(str::to_owned).collect();
        for text in spans.into_iter().chain(shell_lines(&text)) {
            for (at, _) in text.match_indices("model-gateway ") {
                let is_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
                if is_word {
                    let rest = text[at..].split(['|', ';', '&', '>', ')', '\n']).next().unwrap_or_default();
                    found.push(Written { page: page.clone(), text: rest.trim().to_owned() });
                }
            }
        }
    }
    found
}

/// The lines of shell blocks. A line that ends with a backslash goes on in the next one.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for block in text.split("\n```sh\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default().replace("\\\n", " ");
        lines.extend(block.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned));
    }
    lines
}

/// The text of `--help` for a command, once for each.
struct Help(BTreeMap<String, String>);

impl Help {
    fn of(&mut self, path: &[&str]) -> &str {
        self.0.entry(path.join(" ")).or_insert_with(|| {
            let launch = path.iter().fold(Launch::new(binary()), |launch, word| launch.arg(*word));
            let output = launch.arg("--help").run();
            assert!(output.status.success(), "{path:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    }

    /// Whether a command has this command below it.
    fn has_command(&mut self, path: &[&str], word: &str) -> bool {
        self.commands(path).iter().any(|name| name == word)
    }

    /// The commands below a command. A description that does not fit into a line goes on deeper in the next one.
    fn commands(&mut self, path: &[&str]) -> Vec<String> {
        let listed = self.of(path).split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
        let lines = listed.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("  "));
        let names =
            lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect()
    }
}

#[test]
fn every_command_of_the_documentation_exists_with_its_options() {
    let mut help = Help(BTreeMap::new());
    let mut unknown = Vec::new();
    let commands = commands();
    assert!(commands.len() > 50, "{} commands were found", commands.len());
    for Written { page, text } in &commands {
        let words: Vec<&str> = text.split_whitespace().skip(1).take_while(|word| *word != "--").collect();
        let mut path = Vec::new();
        let plain = words.iter().take_while(|word| !word.starts_with('-'));
        for word in plain.map(|word| word.trim_end_matches([',', '.', ':'])) {
            if !help.has_command(&path, word) {
                break;
            }
            path.push(word);
        }
        let is_command = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase()) && path.is_empty();
        if let Some(word) = words.first().filter(is_command) {
            unknown.push(format!("{page}: {text}: no command {word}"));
        }
        for option in words.iter().filter_map(|word| word.trim_start_matches('[').strip_prefix("--")) {
            let name: String =
                option.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            if !help.of(&path).contains(&format!("--{name}")) {
                unknown.push(format!("{page}: {text}: no option --{name}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn every_command_is_in_the_reference_of_the_command_line() {
    let reference = read(&root().join("docs/command-line.md"));
    let commands = Help(BTreeMap::new()).commands(&[]);
    assert!(commands.len() > 10, "{commands:?}");
    let is_missing =
        |name: &&String| *name != "help" && !reference.contains(&format!("`model-gateway {name}"));
    let missing: Vec<_> = commands.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/command-line.md does not name {missing:?}");
}
