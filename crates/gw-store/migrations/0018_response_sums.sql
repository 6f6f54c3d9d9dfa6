-- The bytes of all rows of a key, so that no request adds them up. Every change of a row changes its sum.
CREATE TABLE response_sums (
    owner TEXT NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO response_sums (owner, bytes) SELECT owner, SUM(COALESCE(bytes, 0)) FROM responses GROUP BY owner;
CREATE TRIGGER response_added AFTER INSERT ON responses BEGIN
    INSERT INTO response_sums (owner, bytes) VALUES (NEW.owner, COALESCE(NEW.bytes, 0))
        ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER response_resized AFTER UPDATE OF bytes ON responses BEGIN
    UPDATE response_sums SET bytes = bytes + COALESCE(NEW.bytes, 0) - COALESCE(OLD.bytes, 0) WHERE owner = NEW.owner;
END;
CREATE TRIGGER response_removed AFTER DELETE ON responses BEGIN
    UPDATE response_sums SET bytes = bytes - COALESCE(OLD.bytes, 0) WHERE owner = OLD.owner;
END;
