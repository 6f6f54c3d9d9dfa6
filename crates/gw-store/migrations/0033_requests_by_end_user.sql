-- The requests of an end user: a few rows among all those of their hours. The end user is the first name of a row. Its text may be cut off
-- at a quotation mark or at its length, so the index finds candidates.
CREATE INDEX ledger_by_end_user ON ledger_rows (substr(names, 3, min(200, instr(substr(names, 3), '"') - 1)), at)
    WHERE instr(names, '["end_user:') = 1;
