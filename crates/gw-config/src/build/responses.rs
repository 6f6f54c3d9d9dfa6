//! `[responses]`.

use gw_engine::stored_responses::{ResponsePlace, StoredResponseSettings};

use super::super::tree::Table;
use super::fields::set;

pub(super) fn responses(root: &Table) -> StoredResponseSettings {
    let mut settings = StoredResponseSettings::default();
    let body_limit = root.table("server").and_then(|server| server.int::<u64>("body_limit_mib"));
    set(&mut settings.max_conversation_bytes, body_limit.map(|mib| mib << 20));
    let Some(table) = root.table("responses") else { return settings };
    set(&mut settings.max_bytes_per_key, table.int::<u64>("max_mib_per_key").map(|mib| mib << 20));
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
