-- The requests of an end user: a few rows among all those of their hours. The end user is the first name of a row. Its text may be cut off
-- at a quotation mark or at its length, so the index finds candidates.
CREATE INDEX ledger_by_end_user ON ledger (left(split_part(names, '"', 2), 200), at) WHERE names LIKE '["end\_user:%';
