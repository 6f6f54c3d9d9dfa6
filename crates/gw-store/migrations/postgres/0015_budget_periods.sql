-- The program knows the periods of budgets.
ALTER TABLE keys DROP CONSTRAINT IF EXISTS keys_budget_period_check;
ALTER TABLE teams DROP CONSTRAINT IF EXISTS teams_budget_period_check;
