-- A stored conversation is a chain: a row holds its own turn and names the response before it. A row that is deleted or
-- expired stays, unreachable, as long as another row continues it. The numbers are those of the conversation up to the
-- row. Rows from before have their whole conversation in `sealed`, and no numbers; new rows have it in response_contents.
ALTER TABLE responses ADD COLUMN parent TEXT COLLATE "C";
ALTER TABLE responses ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE responses ADD COLUMN is_streamed BIGINT NOT NULL DEFAULT 1;
ALTER TABLE responses ADD COLUMN bytes BIGINT;
ALTER TABLE responses ADD COLUMN conversation_bytes BIGINT;
ALTER TABLE responses ADD COLUMN conversation_items BIGINT NOT NULL DEFAULT 0;
ALTER TABLE responses ADD COLUMN conversation_values BIGINT NOT NULL DEFAULT 0;
ALTER TABLE responses ADD COLUMN conversation_turns BIGINT NOT NULL DEFAULT 1;
CREATE INDEX responses_by_parent ON responses (owner, parent) WHERE parent IS NOT NULL;
CREATE TABLE response_contents (
    owner  TEXT COLLATE "C" NOT NULL,
    id     TEXT COLLATE "C" NOT NULL,
    sealed TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, id),
    FOREIGN KEY (owner, id) REFERENCES responses (owner, id) ON DELETE CASCADE
);
-- The responses of items whose own ids do not tell it.
CREATE TABLE response_items (
    owner    TEXT COLLATE "C" NOT NULL,
    item     TEXT COLLATE "C" NOT NULL,
    response TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, item, response),
    FOREIGN KEY (owner, response) REFERENCES responses (owner, id) ON DELETE CASCADE
);
CREATE INDEX response_items_by_response ON response_items (owner, response);
