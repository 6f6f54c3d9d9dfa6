-- The last comparison of the ledger with each provider's bill, and the process that makes the next one. Amounts are femto-USD, days
-- are days since 1970, times are unix seconds.
CREATE TABLE gateway_reconciliations (
    provider     TEXT PRIMARY KEY,
    leased_until INTEGER NOT NULL,
    day          INTEGER NOT NULL,
    ours         TEXT NOT NULL,
    theirs       TEXT NOT NULL
) STRICT;
