-- Gateway keys. Only the SHA-256 of a key is here; the id is its first twelve characters.
-- Times are unix seconds. models: a JSON array of allowed names, NULL = all.
CREATE TABLE keys (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('inference', 'admin')),
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    models     TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;
