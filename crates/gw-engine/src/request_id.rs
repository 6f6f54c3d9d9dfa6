//! Request ids. They sort by time, and clients cannot choose them.

use std::sync::Arc;

use gw_wire::request_id;

use crate::clock::unix_millis;

/// A new id.
#[must_use]
pub fn generate() -> Arc<str> {
    let millis = u64::try_from(unix_millis()).unwrap_or(0);
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid();
    Arc::from(std::str::from_utf8(&request_id::format(id.as_u128())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn an_id_tells_when_it_was_made_and_is_no_others() {
        let id = generate();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let age = i128::try_from(now).unwrap() - i128::from(request_id::timestamp_millis(&id).unwrap());
        assert!((0..60_000).contains(&age), "{id}: {age} ms");
        assert_ne!(id, generate());
    }
}
