-- A stored conversation is a chain: a row holds its own turn and names the response before it. A row that is deleted or
-- expired stays, unreachable, as long as another row continues it. The numbers are those of the conversation up to the
-- row. Rows from before have their whole conversation in `sealed`, and no numbers; new rows have it in response_contents.
ALTER TABLE responses ADD COLUMN parent TEXT;
ALTER TABLE responses ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE responses ADD COLUMN is_streamed INTEGER NOT NULL DEFAULT 1;
ALTER TABLE responses ADD COLUMN bytes INTEGER;
ALTER TABLE responses ADD COLUMN conversation_bytes INTEGER;
ALTER TABLE responses ADD COLUMN conversation_items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE responses ADD COLUMN conversation_values INTEGER NOT NULL DEFAULT 0;
ALTER TABLE responses ADD COLUMN conversation_turns INTEGER NOT NULL DEFAULT 1;
CREATE INDEX responses_by_parent ON responses (owner, parent) WHERE parent IS NOT NULL;
CREATE TABLE response_contents (
    owner  TEXT NOT NULL,
    id     TEXT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (owner, id),
    FOREIGN KEY (owner, id) REFERENCES responses (owner, id) ON DELETE CASCADE
) STRICT;
-- The responses of items whose own ids do not tell it.
CREATE TABLE response_items (
    owner    TEXT NOT NULL,
    item     TEXT NOT NULL,
    response TEXT NOT NULL,
    PRIMARY KEY (owner, item, response),
    FOREIGN KEY (owner, response) REFERENCES responses (owner, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX response_items_by_response ON response_items (owner, response);
