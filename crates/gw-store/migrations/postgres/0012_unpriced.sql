-- Requests of which a price is unknown, beside every sum of costs.
ALTER TABLE usage_hours ADD COLUMN unpriced BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_sessions ADD COLUMN unpriced BIGINT NOT NULL DEFAULT 0;

-- Whether a budget lets requests pass whose cost it cannot know: 'refuse'. NULL = 'allow'.
ALTER TABLE keys ADD COLUMN unpriced TEXT COLLATE "C";
ALTER TABLE teams ADD COLUMN unpriced TEXT COLLATE "C";
