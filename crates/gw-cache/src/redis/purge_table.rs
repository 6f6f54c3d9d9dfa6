//! The table of purges in Redis: the commands that read and change it, and the parsing of it.

use redis::{Cmd, FromRedisValue, Value};

use crate::purge_log::{MAX_PURGED_NAMES, Purge};

const READ_PURGES: &str = concat!(include_str!("purge_table.lua"), include_str!("read_purges.lua"));
const ADD_PURGE: &str = concat!(include_str!("purge_table.lua"), include_str!("add_purge.lua"));

/// The field with the number of the last purge.
pub(super) const LAST: &str = "last";

/// The contents of the table.
pub(super) struct PurgeTable {
    pub(super) last: u64,
    /// The numbers of all names, `all` among them.
    pub(super) names: Vec<(String, u64)>,
}

/// The command that reads the table, and creates it if there is none.
pub(super) fn read_command(key: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(READ_PURGES).arg(1).arg(key);
    command
}

/// The command that adds a purge and reads the table.
pub(super) fn purge_command(key: &str, purge: &Purge) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(ADD_PURGE).arg(1).arg(key).arg(purge.name()).arg(MAX_PURGED_NAMES);
    command
}

/// Parses the table. None if the value is not one.
pub(super) fn parse(value: Value) -> Option<PurgeTable> {
    let fields = Vec::<(String, u64)>::from_redis_value(value).ok()?;
    let last = fields.iter().find(|(name, _)| name == LAST).map(|(_, number)| *number)?;
    let names = fields.into_iter().filter(|(name, _)| name != LAST).collect();
    Some(PurgeTable { last, names })
}
