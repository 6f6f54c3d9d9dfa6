//! The table of purges in Redis: how it is asked for, and how it is read.

use redis::{Cmd, FromRedisValue, Value};

use crate::purges::{MOST, Purge};

const TABLE: &str = concat!(include_str!("begun.lua"), include_str!("table.lua"));
const PURGE: &str = concat!(include_str!("begun.lua"), include_str!("purge.lua"));

/// The field of the last purge's number.
pub(super) const LAST: &str = "last";

/// What the table says.
pub(super) struct Table {
    pub(super) last: u64,
    /// The other fields, `all` among them.
    pub(super) names: Vec<(String, u64)>,
}

/// Asks for the table, which begins now if there is none.
pub(super) fn ask(key: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(TABLE).arg(1).arg(key);
    command
}

/// Notes a purge, and asks for the table.
pub(super) fn purge(key: &str, purge: &Purge) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(PURGE).arg(1).arg(key).arg(purge.name()).arg(MOST);
    command
}

/// None when this is no table.
pub(super) fn read(value: Value) -> Option<Table> {
    let fields = Vec::<(String, u64)>::from_redis_value(value).ok()?;
    let last = fields.iter().find(|(name, _)| name == LAST).map(|(_, number)| *number)?;
    let names = fields.into_iter().filter(|(name, _)| name != LAST).collect();
    Some(Table { last, names })
}
