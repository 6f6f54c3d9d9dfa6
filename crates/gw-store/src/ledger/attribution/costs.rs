//! The costs of requests by all of their tags together.

use super::super::Filter;
use super::super::read::{SUMS, read_sums};
use crate::db::{Result, Store};
use crate::sql::{Row, Sql};

/// The cost of the requests that have the same tags, the same key and the same team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedCost {
    /// The tags.
    pub tags: Vec<Box<str>>,
    /// Whether the requests have an end user.
    pub has_end_user: bool,
    /// Id of the key.
    pub key_id: String,
    /// The key's team.
    pub team: Option<String>,
    /// The cost in femto-USD.
    pub cost: i128,
}

impl Store {
    /// The costs of the requests that have a name and match the filter, at most `limit` of them. A request is in one of them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn costs_by_tags(&self, filter: &Filter, limit: u32) -> Result<Vec<TaggedCost>> {
        // A tag has no line break.
        let (list, names) = match self.is_postgres() {
            true => (
                "string_agg(one.value, chr(10))",
                " FROM jsonb_array_elements_text(CAST(combined.names AS jsonb)) AS one(value)",
            ),
            false => ("group_concat(one.value, char(10))", " FROM json_each(combined.names) AS one"),
        };
        let mut sql = Sql::new("SELECT (SELECT ");
        sql.push(list).push(names).push(" WHERE substr(one.value, 1, 4) = 'tag:') AS tags, ");
        sql.push("CAST(CASE WHEN EXISTS (SELECT 1").push(names);
        sql.push(
            " WHERE substr(one.value, 1, 9) = 'end_user:') THEN 1 ELSE 0 END AS BIGINT) AS has_end_user, ",
        );
        sql.push("key_id, team, ").push(SUMS);
        super::push_detail(&mut sql, filter, self.is_postgres());
        sql.push(" GROUP BY 1, 2, 3, 4 LIMIT ").push_int(limit.into());
        self.list(sql, read).await
    }
}

fn read(row: &Row) -> sqlx::Result<TaggedCost> {
    let tags = row.get::<Option<String>>("tags")?.unwrap_or_default();
    let tags = tags.lines().filter_map(|text| text.strip_prefix("tag:"));
    Ok(TaggedCost {
        // A row with tags also has an empty one.
        tags: tags.filter(|tag| !tag.is_empty()).map(Into::into).collect(),
        has_end_user: row.get::<i64>("has_end_user")? != 0,
        key_id: row.get("key_id")?,
        team: Some(row.get::<String>("team")?).filter(|team| !team.is_empty()),
        cost: read_sums(row)?.cost,
    })
}
