-- The failures of a key: a few of its rows, which lie anywhere among them.
CREATE INDEX ledger_failures_by_key ON ledger (key_id, at, status) WHERE status <> 'ok';
