//! Pass-through routes: paths, credentials, headers, statuses, costs, key lists, bounds and endings.

mod bodies;
mod charges;
mod credentials;
mod guards;
mod told_costs;

use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, logged};

/// Routes of the provider `acme`, and targets at the same upstream.
pub(super) const ROUTES: &str = r#"
[[passthrough]]
path = "/acme"
provider = "acme"
usage = "openai"

[[passthrough]]
path = "/fee"
provider = "acme"
cost_per_request = 0.0125

[[passthrough]]
path = "/fee/read"
provider = "acme"
usage = "openai"
cost_per_request = 0.5
methods = ["POST", "PUT"]

[[passthrough]]
path = "/own"
target = "<acme_url>/base"
credential = "forward"
forward_headers = ["x-kept"]

[[passthrough]]
path = "/v1/videos"
target = "<acme_url>/videos"
headers = { authorization = "Bearer target-secret-123" }
usage = "openai"
pricing = { official_input_per_m = 100.0, official_output_per_m = 200.0 }
"#;

/// A gateway with the routes, and with more lines of configuration.
pub(super) async fn world_with(more: &str) -> World {
    Setup { extra: format!("{ROUTES}{more}"), ..Setup::default() }.start().await
}

pub(super) fn admin(world: &World) -> Client {
    world.gateway.client().with_key(ADMIN)
}

/// The row of an answer in the request log.
pub(super) async fn row(world: &World, answer: &Response) -> Value {
    logged(&admin(world), answer.header("x-request-id").expect("an id")).await
}

/// An answer in OpenAI's shape with 100 and 10 tokens.
pub(super) fn told() -> Value {
    json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}})
}
