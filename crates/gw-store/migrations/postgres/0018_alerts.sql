-- Alerts that wait for their delivery, and the events that were claimed. Times are unix milliseconds; `until_at` is unix seconds.
CREATE TABLE gateway_alert_claims (
    claim    TEXT PRIMARY KEY,
    until_at BIGINT NOT NULL
);

CREATE TABLE gateway_alert_queue (
    id         TEXT PRIMARY KEY,
    alert      TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    attempts   BIGINT NOT NULL,
    last_error TEXT
);

CREATE INDEX gateway_alert_queue_due ON gateway_alert_queue (alert, due_at);
