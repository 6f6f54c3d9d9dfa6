//! `[catalogue]`.

use super::super::binding::{Form, field};
use super::super::formats::MINISIGN_KEY;
use super::super::schema::{Kind, Section, setting};
use super::super::settings::Config;

pub(super) static CATALOGUE: Section = Section {
    doc: "Updates of the model catalogue (`model-gateway models update`).",
    keys: &[setting(
        "trusted_keys",
        Kind::List { of: &Kind::Text(&MINISIGN_KEY), min: 0 },
        field!(Config, catalogue_keys, Form::TEXTS),
        "The minisign public keys of the publishers whose catalogues the gateway uses. Without a key it uses the catalogue that is \
         part of the program.",
    )],
};
