//! The sessions of people who signed in with a browser. The store knows only the SHA-256 of a session's id.

use crate::db::{Result, Store};
use crate::sql::{Row, Sql};

/// The most sessions of one person. A further one ends the oldest.
const MAX_SESSIONS_OF_SUBJECT: i64 = 16;

/// A session. Times are unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// SHA-256 of the id in the cookie.
    pub hash: [u8; 32],
    /// The id of the person, the same in every session.
    pub subject: String,
    /// The person as JSON: the name, the role and the issuer.
    pub identity: String,
    /// The time of the sign-in.
    pub created_at: i64,
    /// The time of the last use, to about a minute.
    pub seen_at: i64,
}

impl Store {
    /// Keeps a new session. The oldest sessions of the person end if there are too many.
    pub async fn insert_session(&self, session: &StoredSession) -> Result<()> {
        let insert = "INSERT INTO gateway_sessions (hash, subject, identity, created_at, seen_at) VALUES ($1, $2, $3, $4, $5)";
        let insert = Sql::new(insert)
            .bytes(session.hash.as_slice())
            .text(&*session.subject)
            .text(&*session.identity)
            .int(session.created_at)
            .int(session.seen_at);
        self.run(insert).await?;
        let bound = "DELETE FROM gateway_sessions WHERE subject = $1 AND hash NOT IN \
            (SELECT hash FROM gateway_sessions WHERE subject = $2 ORDER BY created_at DESC LIMIT $3)";
        let bound =
            Sql::new(bound).text(&*session.subject).text(&*session.subject).int(MAX_SESSIONS_OF_SUBJECT);
        self.run(bound).await.map(drop)
    }

    /// The session with this hash.
    pub async fn session(&self, hash: &[u8; 32]) -> Result<Option<StoredSession>> {
        let select = Sql::new("SELECT * FROM gateway_sessions WHERE hash = $1").bytes(hash.as_slice());
        self.first(select, read).await
    }

    /// Notes that a session is in use at this time.
    pub async fn touch_session(&self, hash: &[u8; 32], now: i64) -> Result<()> {
        let touch = Sql::new("UPDATE gateway_sessions SET seen_at = $1 WHERE hash = $2");
        self.run(touch.int(now).bytes(hash.as_slice())).await.map(drop)
    }

    /// Ends a session; returns whether it existed.
    pub async fn delete_session(&self, hash: &[u8; 32]) -> Result<bool> {
        let delete = Sql::new("DELETE FROM gateway_sessions WHERE hash = $1").bytes(hash.as_slice());
        Ok(self.run(delete).await? > 0)
    }

    /// Ends the sessions of a person whose identity is another one than `identity`, because the person's role or name
    /// changed.
    pub async fn delete_other_sessions(&self, subject: &str, identity: &str) -> Result<u64> {
        let delete = "DELETE FROM gateway_sessions WHERE subject = $1 AND identity <> $2";
        self.run(Sql::new(delete).text(subject).text(identity)).await
    }

    /// Deletes the sessions that began before `created_before` or were last in use before `seen_before` (unix seconds).
    pub async fn purge_sessions(&self, created_before: i64, seen_before: i64) -> Result<u64> {
        let delete = "DELETE FROM gateway_sessions WHERE created_at <= $1 OR seen_at <= $2";
        self.run(Sql::new(delete).int(created_before).int(seen_before)).await
    }
}

fn read(row: &Row) -> sqlx::Result<StoredSession> {
    let hash: Vec<u8> = row.get("hash")?;
    Ok(StoredSession {
        hash: hash.try_into().map_err(|_| sqlx::Error::Decode("a hash has not 32 bytes".into()))?,
        subject: row.get("subject")?,
        identity: row.get("identity")?,
        created_at: row.get("created_at")?,
        seen_at: row.get("seen_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::StoredSession;
    use crate::testing::on_both;

    fn session(byte: u8, created_at: i64) -> StoredSession {
        let (subject, identity) = ("oidc-1".to_owned(), "{}".to_owned());
        StoredSession { hash: [byte; 32], subject, identity, created_at, seen_at: created_at }
    }

    #[tokio::test]
    async fn sessions_are_found_by_their_hash_and_end() {
        on_both(async |place| {
            let store = place.open().await;
            store.insert_session(&session(1, 100)).await.unwrap();
            store.insert_session(&session(2, 200)).await.unwrap();
            store.touch_session(&[1; 32], 150).await.unwrap();
            let touched = StoredSession { seen_at: 150, ..session(1, 100) };
            assert_eq!(store.session(&[1; 32]).await.unwrap(), Some(touched));
            assert_eq!(store.session(&[9; 32]).await.unwrap(), None);
            assert!(store.delete_session(&[1; 32]).await.unwrap());
            assert!(!store.delete_session(&[1; 32]).await.unwrap());
            assert_eq!(store.delete_other_sessions("oidc-1", "{}").await.unwrap(), 0);
            assert_eq!(store.delete_other_sessions("oidc-1", "{\"role\":\"viewer\"}").await.unwrap(), 1);
        })
        .await;
    }

    #[tokio::test]
    async fn a_person_has_a_bounded_number_of_sessions_and_old_ones_are_purged() {
        on_both(async |place| {
            let store = place.open().await;
            for n in 0..20 {
                store.insert_session(&session(n, i64::from(n))).await.unwrap();
            }
            assert_eq!(store.session(&[3; 32]).await.unwrap(), None);
            assert!(store.session(&[4; 32]).await.unwrap().is_some());
            assert_eq!(store.purge_sessions(10, 0).await.unwrap(), 7);
            assert_eq!(store.purge_sessions(0, 18).await.unwrap(), 8);
        })
        .await;
    }
}
