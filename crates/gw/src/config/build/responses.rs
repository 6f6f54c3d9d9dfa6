//! `[responses]`.

use gw_engine::stored_responses::{ResponsePlace, StoredResponseSettings};

use super::super::tree::Table;
use super::fields::set;

pub(super) fn responses(root: &Table) -> StoredResponseSettings {
    let mut settings = StoredResponseSettings::default();
    let Some(table) = root.table("responses") else { return settings };
    match table.choice("store") {
        Some("database") => settings.place = ResponsePlace::Database,
        Some("off") => settings.place = ResponsePlace::Off,
        _ => {
            if let Some(mib) = table.int::<u64>("max_mib") {
                settings.place = ResponsePlace::Memory { max_bytes: mib << 20 };
            }
        }
    }
    set(&mut settings.ttl, table.seconds("ttl_seconds"));
    settings
}
