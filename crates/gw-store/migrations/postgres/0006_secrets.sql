-- Secrets that replicas share, such as the encryption key of a gateway whose environment has none. The first value of a
-- name stays.
CREATE TABLE gateway_secrets (
    name  TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);
