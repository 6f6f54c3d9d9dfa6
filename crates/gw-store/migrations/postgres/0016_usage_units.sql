-- Units other than tokens (images, seconds, search units, …) by hour, in millionths of a unit. Only requests with such units have rows.
CREATE TABLE usage_units (
    hour       BIGINT NOT NULL,
    surface    TEXT COLLATE "C" NOT NULL,
    key_id     TEXT COLLATE "C" NOT NULL,
    team       TEXT COLLATE "C" NOT NULL,
    model      TEXT COLLATE "C" NOT NULL,
    provider   TEXT COLLATE "C" NOT NULL,
    unit       TEXT COLLATE "C" NOT NULL,
    millionths BIGINT NOT NULL,
    PRIMARY KEY (hour, surface, key_id, team, model, provider, unit)
);
