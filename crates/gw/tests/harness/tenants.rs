//! Keys of two teams and none.

use gw_testkit::Client;
use serde_json::{Value, json};

use super::management::{ask, create};
use super::{ADMIN, World};

/// The tenant `a`, and three others who must not learn its questions: a stranger, a member of its team, an operator.
pub(crate) struct Tenants {
    pub(crate) a: Client,
    pub(crate) a_key: Value,
    pub(crate) others: [(&'static str, Client); 3],
}

pub(crate) async fn tenants(world: &World) -> Tenants {
    let admin = world.client.with_key(ADMIN);
    let made = ask(&admin, "PUT", "/admin/v1/teams/team-of-a", &json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let members = json!({ "name": "tenant-a", "team": "team-of-a", "log_payloads": true });
    let (secret, a_key) = create(&admin, members).await;
    let (stranger, _) = create(&admin, json!({ "name": "tenant-b" })).await;
    let (mate, _) = create(&admin, json!({ "name": "tenant-m", "team": "team-of-a" })).await;
    let a = world.client.with_key(&secret);
    let others =
        [("a stranger", a.with_key(&stranger)), ("of the team", a.with_key(&mate)), ("an operator", admin)];
    Tenants { a, a_key, others }
}
