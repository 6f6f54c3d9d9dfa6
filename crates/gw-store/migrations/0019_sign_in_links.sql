-- Links that sign a browser in once. Only the SHA-256 of a link's token is here, and the SHA-256 of the key for which it signs in.
-- Times are unix seconds.
CREATE TABLE gateway_sign_in_links (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    key_hash   BLOB NOT NULL CHECK (length(key_hash) = 32),
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
) STRICT;
