-- When this store was last in use, by a clock that nobody doubts, and which time somebody has confirmed: unix
-- milliseconds. One row. Without it a clock that jumps would have all rows forgotten as old.
CREATE TABLE gateway_clock (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    seen      INTEGER,
    confirmed INTEGER
) STRICT;
