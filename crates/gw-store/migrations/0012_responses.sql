-- Responses of the Responses API that clients can retrieve and continue. `sealed` is encrypted; expires_at is unix seconds.
CREATE TABLE responses (
    owner      TEXT NOT NULL,
    id         TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    sealed     TEXT NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT;
CREATE INDEX responses_by_end ON responses (expires_at);
