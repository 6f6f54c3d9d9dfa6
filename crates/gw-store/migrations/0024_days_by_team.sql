-- The spending of a team over a long time, without a look at any row of the table.
CREATE INDEX usage_days_by_team ON usage_days (team, hour, cost_nano, cost_rest);
