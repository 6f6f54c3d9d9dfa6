-- How many requests may come at once (NULL: all of rpm, at most so many in any minute), and what becomes of an answer when the
-- budget ends under it (NULL: finish).
ALTER TABLE keys ADD COLUMN burst BIGINT;
ALTER TABLE keys ADD COLUMN on_budget TEXT COLLATE "C";
ALTER TABLE teams ADD COLUMN burst BIGINT;
ALTER TABLE teams ADD COLUMN on_budget TEXT COLLATE "C";
