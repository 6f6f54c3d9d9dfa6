-- The program knows the periods of budgets. SQLite cannot drop a CHECK, so the columns are made again.
ALTER TABLE keys ADD COLUMN period TEXT;
UPDATE keys SET period = budget_period;
ALTER TABLE keys DROP COLUMN budget_period;
ALTER TABLE keys RENAME COLUMN period TO budget_period;
ALTER TABLE teams ADD COLUMN period TEXT;
UPDATE teams SET period = budget_period;
ALTER TABLE teams DROP COLUMN budget_period;
ALTER TABLE teams RENAME COLUMN period TO budget_period;
