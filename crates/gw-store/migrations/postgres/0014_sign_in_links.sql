-- Links that sign a browser in once. Only the SHA-256 of a link's token is here, and the SHA-256 of the key for which it signs in.
-- Times are unix seconds.
CREATE TABLE gateway_sign_in_links (
    hash       BYTEA PRIMARY KEY CHECK (length(hash) = 32),
    key_hash   BYTEA NOT NULL CHECK (length(key_hash) = 32),
    expires_at BIGINT NOT NULL,
    used_at    BIGINT
);
