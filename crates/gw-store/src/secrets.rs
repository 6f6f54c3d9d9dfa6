//! Secrets that replicas share. The first value of a name stays.

use secrecy::{ExposeSecret, SecretSlice};

use crate::db::{Result, Store};
use crate::sql::Sql;

impl Store {
    /// The secret with this name. If the store has none, it keeps `new`. When several processes bring one at the same
    /// time, all of them get the first one.
    pub async fn shared_secret(&self, name: &str, new: &SecretSlice<u8>) -> Result<SecretSlice<u8>> {
        if let Some(known) = self.secret(name).await? {
            return Ok(known);
        }
        let keep = "INSERT INTO gateway_secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.run(Sql::new(keep).text(name).bytes(new.expose_secret())).await?;
        let select = Sql::new("SELECT value FROM gateway_secrets WHERE name = $1").text(name);
        self.only(select, |row| row.get::<Vec<u8>>("value").map(SecretSlice::from)).await
    }

    /// The secret with this name, if the store has one.
    pub async fn secret(&self, name: &str) -> Result<Option<SecretSlice<u8>>> {
        let select = Sql::new("SELECT value FROM gateway_secrets WHERE name = $1").text(name);
        self.first(select, |row| row.get::<Vec<u8>>("value").map(SecretSlice::from)).await
    }
}

#[cfg(test)]
mod tests {
    use secrecy::{ExposeSecret, SecretSlice};

    use crate::testing::on_both;

    fn secret(byte: u8) -> SecretSlice<u8> {
        vec![byte; 32].into()
    }

    #[tokio::test]
    async fn the_first_value_of_a_secret_stays() {
        on_both(async |place| {
            let store = place.open().await;
            let first = store.shared_secret("key", &secret(1)).await.unwrap();
            assert_eq!(first.expose_secret(), [1; 32]);
            assert_eq!(store.shared_secret("other", &secret(2)).await.unwrap().expose_secret(), [2; 32]);
            store.close().await;
            let store = place.open().await;
            assert_eq!(store.shared_secret("key", &secret(3)).await.unwrap().expose_secret(), [1; 32]);
        })
        .await;
    }

    #[tokio::test]
    async fn processes_that_start_together_get_one_secret() {
        on_both(async |place| {
            place.open().await.close().await;
            let mut starting = tokio::task::JoinSet::new();
            for byte in 1..=8 {
                let url = place.url.clone();
                starting.spawn(async move {
                    let store = crate::Store::open_url(&url).await.unwrap();
                    store.shared_secret("key", &secret(byte)).await.unwrap().expose_secret().to_vec()
                });
            }
            let got = starting.join_all().await;
            assert!(got.iter().all(|secret| *secret == got[0]), "{got:?}");
        })
        .await;
    }
}
