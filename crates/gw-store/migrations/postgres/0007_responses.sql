-- Responses of the Responses API that clients can retrieve and continue. `sealed` is encrypted; expires_at is unix seconds.
CREATE TABLE responses (
    owner      TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX responses_by_end ON responses (expires_at);
