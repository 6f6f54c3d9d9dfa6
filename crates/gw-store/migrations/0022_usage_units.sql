-- Units other than tokens (images, seconds, search units, …) by hour, in millionths of a unit. Only requests with such units have rows.
CREATE TABLE usage_units (
    hour       INTEGER NOT NULL,
    surface    TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    team       TEXT NOT NULL,
    model      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    unit       TEXT NOT NULL,
    millionths INTEGER NOT NULL,
    PRIMARY KEY (hour, surface, key_id, team, model, provider, unit)
) STRICT, WITHOUT ROWID;
