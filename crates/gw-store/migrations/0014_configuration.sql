-- Configuration that was made over the API, with its history. The values are JSON. A secret in them is `{"$secret": id}`, and
-- its encrypted text is in configuration_secrets.
CREATE TABLE configuration (
    section TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (section, name)
) STRICT;

CREATE TABLE configuration_changes (
    version      INTEGER PRIMARY KEY,
    changed_at   INTEGER NOT NULL,
    actor        TEXT NOT NULL,
    section      TEXT NOT NULL,
    name         TEXT NOT NULL,
    value_before TEXT,
    value_after  TEXT,
    undoes       INTEGER
) STRICT;

CREATE TABLE configuration_secrets (
    id     TEXT PRIMARY KEY,
    sealed TEXT NOT NULL
) STRICT;
