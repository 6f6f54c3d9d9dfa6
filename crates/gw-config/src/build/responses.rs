//! `[responses]`.

use gw_engine::stored_responses::{ResponsePlace, StoredResponseSettings};

use super::super::binding::fill;
use super::super::tree::Table;

pub(super) fn responses(root: &Table) -> StoredResponseSettings {
    let mut settings = StoredResponseSettings::default();
    let body_limit = root.table("server").and_then(|server| server.int::<u64>("body_limit_mib"));
    if let Some(mib) = body_limit {
        settings.max_conversation_bytes = mib << 20;
    }
    let Some(table) = root.table("responses") else { return settings };
    fill(&mut settings, table);
    match table.choice("store") {
        Some("database") => settings.place = ResponsePlace::Database,
        Some("off") => settings.place = ResponsePlace::Off,
        _ => {
            if let Some(mib) = table.int::<u64>("max_mib") {
                settings.place = ResponsePlace::Memory { max_bytes: mib << 20 };
            }
        }
    }
    settings
}
