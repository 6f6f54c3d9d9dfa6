-- Alerts that wait for their delivery, and the events that were claimed. Times are unix milliseconds; `until_at` is unix seconds.
CREATE TABLE gateway_alert_claims (
    claim    TEXT PRIMARY KEY,
    until_at INTEGER NOT NULL
) STRICT;

CREATE TABLE gateway_alert_queue (
    id         TEXT PRIMARY KEY,
    alert      TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    last_error TEXT
) STRICT;

CREATE INDEX gateway_alert_queue_due ON gateway_alert_queue (alert, due_at);
