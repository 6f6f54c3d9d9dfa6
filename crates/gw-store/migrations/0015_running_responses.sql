-- A response that is made in the background: its process reports until when it runs (unix seconds). NULL = it has ended.
ALTER TABLE responses ADD COLUMN running_until INTEGER;
