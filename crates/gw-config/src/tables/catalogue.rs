//! `[catalogue]`.

use super::super::formats::MINISIGN_KEY;
use super::super::schema::{Kind, Section, key};

pub(super) static CATALOGUE: Section = Section {
    doc: "Updates of the model catalogue (`model-gateway models update`).",
    keys: &[key(
        "trusted_keys",
        Kind::List { of: &Kind::Text(&MINISIGN_KEY), min: 0 },
        "[]",
        "The minisign public keys of the publishers whose catalogues the gateway uses. Without a key it uses the catalogue that is \
         part of the program.",
    )],
};
