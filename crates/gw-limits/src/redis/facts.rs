//! The facts about a Redis server that decide whether it fits limits and budgets. They are for operators.

use std::time::Duration;

use gw_redis::{Address, CallError, Connection, ReceiveBudget};
use redis::{Value, cmd};
use tokio::time::timeout;

use super::settings::RedisSettings;

/// The longest time for all questions together.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Facts that the server states about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisFacts {
    /// `Redis` or `Valkey`.
    pub product: &'static str,
    /// Its version, as `7.2.4`.
    pub version: String,
    /// The version of Redis whose commands it has, as major and minor number.
    pub compatible: (u32, u32),
    /// Whether it takes writes: it is not a replica.
    pub is_primary: bool,
    /// Whether it is part of a Redis Cluster.
    pub is_cluster: bool,
    /// `maxmemory`; 0 = no limit.
    pub max_memory_bytes: u64,
    /// `maxmemory-policy`.
    pub eviction_policy: String,
    /// Whether it keeps an append-only file.
    pub has_append_only_file: bool,
    /// Whether its last snapshot succeeded. After a failure it may refuse writes.
    pub last_save_succeeded: bool,
    /// Its clock in unix milliseconds.
    pub time: i64,
}

/// The reason why there are no facts. Its text holds no text of the server.
#[derive(Debug, thiserror::Error)]
pub enum RedisFactsError {
    /// The address cannot be read.
    #[error("the address cannot be read")]
    Address,
    /// The server does not answer as Redis does, or not at all.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl RedisFacts {
    /// Asks the server. It changes nothing there, and takes a few seconds at most.
    ///
    /// # Errors
    /// There is no usable answer.
    pub async fn ask(settings: &RedisSettings) -> Result<Self, RedisFactsError> {
        let address = Address::parse(&settings.url, settings.ca_file.as_deref())
            .map_err(|_| RedisFactsError::Address)?;
        let facts = timeout(TIMEOUT, ask(&address)).await.map_err(|_| CallError::TimedOut)?;
        Ok(facts?)
    }

    /// Reads the answer of `INFO`.
    fn parse(info: &str) -> Option<Self> {
        let member = |name: &str| {
            let rest = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            rest.map(str::trim)
        };
        let compatible = member("redis_version")?;
        let mut numbers = compatible.split('.').map_while(|part| part.parse().ok());
        let (product, version) = match member("valkey_version") {
            Some(version) => ("Valkey", version),
            None => ("Redis", compatible),
        };
        Some(Self {
            product,
            version: version.to_owned(),
            compatible: (numbers.next()?, numbers.next().unwrap_or_default()),
            is_primary: member("role") == Some("master"),
            is_cluster: member("cluster_enabled") == Some("1"),
            max_memory_bytes: member("maxmemory").and_then(|bytes| bytes.parse().ok()).unwrap_or_default(),
            eviction_policy: member("maxmemory_policy").unwrap_or("unknown").to_owned(),
            has_append_only_file: member("aof_enabled") == Some("1"),
            last_save_succeeded: member("rdb_last_bgsave_status") != Some("err"),
            time: 0,
        })
    }
}

async fn ask(address: &Address) -> Result<RedisFacts, CallError> {
    let connection = Connection::open(address, ReceiveBudget::default()).await?;
    let info = match connection.ask(&cmd("INFO")).await? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => return Err(CallError::UnexpectedAnswer),
    };
    let facts = RedisFacts::parse(&info).ok_or(CallError::UnexpectedAnswer)?;
    let time: (i64, i64) = redis::from_redis_value(connection.ask(&cmd("TIME")).await?)
        .map_err(|_| CallError::UnexpectedAnswer)?;
    Ok(RedisFacts { time: time.0.saturating_mul(1000).saturating_add(time.1 / 1000), ..facts })
}

#[cfg(test)]
mod tests {
    use super::RedisFacts;

    const INFO: &str = "# Server\r\nredis_version:7.2.4\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:1048576\r\n\
        maxmemory_policy:allkeys-lru\r\n# Persistence\r\nrdb_last_bgsave_status:err\r\naof_enabled:1\r\n\
        # Replication\r\nrole:master\r\n# Cluster\r\ncluster_enabled:0\r\n";

    #[test]
    fn the_answer_of_info_is_read() {
        let facts = RedisFacts::parse(INFO).unwrap();
        let expected = RedisFacts {
            product: "Redis",
            version: "7.2.4".to_owned(),
            compatible: (7, 2),
            is_primary: true,
            is_cluster: false,
            max_memory_bytes: 1_048_576,
            eviction_policy: "allkeys-lru".to_owned(),
            has_append_only_file: true,
            last_save_succeeded: false,
            time: 0,
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn valkey_states_its_own_version_beside_that_of_redis() {
        let facts =
            RedisFacts::parse(&format!("{INFO}server_name:valkey\r\nvalkey_version:8.1.0\r\n")).unwrap();
        assert_eq!((facts.product, facts.version.as_str(), facts.compatible), ("Valkey", "8.1.0", (7, 2)));
    }

    #[test]
    fn another_server_has_no_facts() {
        assert_eq!(RedisFacts::parse("HTTP/1.1 400 Bad Request\r\n"), None);
    }

    #[tokio::test]
    async fn a_real_server_states_its_facts() {
        let redis =
            gw_testkit::Redis::start_with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"])
                .await;
        let facts = RedisFacts::ask(&super::RedisSettings::new(redis.url().into())).await.unwrap();
        assert_eq!((facts.max_memory_bytes, facts.eviction_policy.as_str()), (64 << 20, "allkeys-lru"));
        assert!(facts.is_primary && !facts.is_cluster && facts.time > 1_700_000_000_000, "{facts:?}");
    }
}
