//! The sections that the API can change.

use gw_engine::catalog::query::shown;
use gw_engine::error::{Error, Kind};

/// A section of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeableSection {
    pub(super) name: &'static str,
    /// Whether it is a list of named entries. Otherwise it is one table.
    pub(super) is_list: bool,
}

/// All sections that the API can change, lists first.
pub(super) const SECTIONS: [ChangeableSection; 9] = [
    ChangeableSection { name: "providers", is_list: true },
    ChangeableSection { name: "models", is_list: true },
    ChangeableSection { name: "aliases", is_list: true },
    ChangeableSection { name: "alerts", is_list: true },
    ChangeableSection { name: "budgets", is_list: true },
    ChangeableSection { name: "routing", is_list: false },
    ChangeableSection { name: "cache", is_list: false },
    ChangeableSection { name: "timeouts", is_list: false },
    ChangeableSection { name: "responses", is_list: false },
];

/// The section of this name.
///
/// # Errors
/// `not_found` with the place of the thing that is meant.
pub(super) fn find(name: &str) -> Result<ChangeableSection, Error> {
    let found = SECTIONS.into_iter().find(|section| section.name == name);
    found.ok_or_else(|| {
        let hint = match name {
            "keys" | "teams" | "limits" => {
                "Keys and teams with their limits and budgets are at /admin/v1/keys and /admin/v1/teams."
                    .to_owned()
            }
            "server" | "store" | "redis" | "guards" | "agents" | "passthrough" | "reconcile" => {
                "This section can only be changed in the configuration file.".to_owned()
            }
            _ => {
                let names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
                format!("The sections are {}.", names.join(", "))
            }
        };
        Error::new(
            Kind::NotFound,
            format!("There is no section '{}' that the API can change. {hint}", shown(name)),
        )
    })
}
