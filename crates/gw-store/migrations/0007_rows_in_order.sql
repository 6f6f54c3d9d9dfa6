-- A row costs less to write: its time and its id are the only order of the table, and what many rows have in common (whose
-- they are, and who served them) is kept once. An entry is JSON: in a row that was there before, all of it, with names.
CREATE TABLE ledger_groups (
    id       INTEGER PRIMARY KEY,
    key_id   TEXT NOT NULL,
    team     TEXT,
    model    TEXT NOT NULL,
    provider TEXT NOT NULL,
    -- What an entry of this group has in common with the others.
    entry    TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO ledger_groups (key_id, team, model, provider, entry)
    SELECT DISTINCT key_id, team, model, provider, json_array(key_id, team, model, provider) FROM ledger;

CREATE TABLE ledger_rows (
    at         INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    who        INTEGER NOT NULL,
    -- NULL: ok
    status     TEXT,
    entry      TEXT NOT NULL,
    PRIMARY KEY (at, request_id)
) STRICT, WITHOUT ROWID;
INSERT INTO ledger_rows (at, request_id, who, status, entry)
    SELECT ledger.at, ledger.request_id, ledger_groups.id, nullif(ledger.status, 'ok'), ledger.entry
    FROM ledger JOIN ledger_groups ON ledger_groups.entry =
        json_array(ledger.key_id, ledger.team, ledger.model, ledger.provider)
    ORDER BY ledger.at, ledger.request_id;
DROP TABLE ledger;
-- Rows that went well are nearly all of them, and found by their time.
CREATE INDEX ledger_by_status ON ledger_rows (status, at) WHERE status IS NOT NULL;

-- For people.
CREATE VIEW ledger AS
    SELECT r.request_id, r.at, g.key_id, g.team, g.model, g.provider, coalesce(r.status, 'ok') AS status,
        CASE WHEN r.entry LIKE '{%' THEN r.entry ELSE '[' || json_quote(r.request_id) || ',' || r.at || ',' || g.entry ||
            ',' || json_quote(coalesce(r.status, 'ok')) || ',' || r.entry || ']' END AS entry
    FROM ledger_rows AS r LEFT JOIN ledger_groups AS g ON g.id = r.who;
