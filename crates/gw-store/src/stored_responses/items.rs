//! The items of stored responses by their ids.

use super::ResponseRow;
use crate::db::{Result, Store, WriteTransaction};
use crate::sql::Sql;

/// The items that one statement looks up.
const ITEMS_PER_SEARCH: usize = 100;

impl Store {
    /// The items among these that responses of this key hold, each with the id of its response.
    pub async fn responses_of_items(
        &self,
        owner: &str,
        items: &[String],
        now: i64,
    ) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for some in items.chunks(ITEMS_PER_SEARCH) {
            let mut select = Sql::new(
                "SELECT i.item AS item, i.response AS response FROM response_items i \
                 JOIN responses r ON r.owner = i.owner AND r.id = i.response \
                 WHERE i.owner = $1 AND r.expires_at > $2 AND i.item IN (",
            )
            .name(owner)
            .int(now);
            push_items(&mut select, some);
            select.push(") ORDER BY r.expires_at");
            all.extend(self.list(select, |row| Ok((row.get("item")?, row.get("response")?))).await?);
        }
        Ok(all)
    }
}

/// Moves the items from earlier responses to this one: an upstream may reuse the ids of its items.
pub(super) async fn write_items(
    change: &mut WriteTransaction<'_>,
    row: &ResponseRow,
    items: &[String],
    is_server: bool,
) -> sqlx::Result<()> {
    for some in items.chunks(ITEMS_PER_SEARCH) {
        let mut former = Sql::new(
            "DELETE FROM response_items WHERE (owner, item, response) IN (\
             SELECT owner, item, response FROM response_items WHERE owner = $1 AND item IN (",
        )
        .name(&row.owner);
        push_items(&mut former, some);
        // PostgreSQL leaves out the items that others delete at this moment.
        former.push(if is_server { ") FOR UPDATE SKIP LOCKED)" } else { "))" });
        change.run(former).await?;
    }
    for item in items {
        let insert = "INSERT INTO response_items (owner, item, response) VALUES ($1, $2, $3) \
            ON CONFLICT (owner, item, response) DO NOTHING";
        change.run(Sql::new(insert).name(&row.owner).name(item).name(&row.id)).await?;
    }
    Ok(())
}

fn push_items<'q>(sql: &mut Sql<'q>, items: &'q [String]) {
    for (at, item) in items.iter().enumerate() {
        sql.push(if at == 0 { "" } else { ", " }).push_name(item);
    }
}
