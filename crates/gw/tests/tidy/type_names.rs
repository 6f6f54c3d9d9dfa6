//! Types of one crate have different names, so that a name says which type is meant.

use std::collections::BTreeMap;

use super::exceptions::assert_listed;
use gw_testkit::sources::relative;

use super::files::crates;

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut shared = BTreeMap::new();
    for (crate_name, read) in crates() {
        let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, file) in read.types() {
            files.entry(name).or_default().push(relative(file));
        }
        for (name, files) in files.into_iter().filter(|(_, files)| files.len() > 1) {
            shared.insert(format!("{crate_name} {name}"), files.join(", "));
        }
    }
    assert_listed("names that several types of a crate share", "shared_type_names.txt", &shared);
}
