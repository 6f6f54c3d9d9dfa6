-- The program knows the periods of budgets.
ALTER TABLE keys DROP CONSTRAINT keys_budget_period_check;
ALTER TABLE teams DROP CONSTRAINT teams_budget_period_check;
