-- The bytes of all rows of a key, so that no request adds them up. Every change of a row changes its sum, at the end of its
-- transaction: the row of the sum is always the last lock that a transaction takes.
CREATE TABLE response_sums (
    owner TEXT COLLATE "C" PRIMARY KEY,
    bytes BIGINT NOT NULL
);
CREATE FUNCTION gateway_response_sums() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    whose TEXT;
    change BIGINT := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        whose := OLD.owner;
        change := change - COALESCE(OLD.bytes, 0);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        whose := NEW.owner;
        change := change + COALESCE(NEW.bytes, 0);
    END IF;
    IF change <> 0 THEN
        INSERT INTO response_sums (owner, bytes) VALUES (whose, change)
            ON CONFLICT (owner) DO UPDATE SET bytes = response_sums.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER responses_summed AFTER INSERT OR UPDATE OF bytes OR DELETE ON responses
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION gateway_response_sums();
-- The trigger holds off writers of the former version until this is committed.
INSERT INTO response_sums (owner, bytes) SELECT owner, SUM(COALESCE(bytes, 0)) FROM responses GROUP BY owner;
