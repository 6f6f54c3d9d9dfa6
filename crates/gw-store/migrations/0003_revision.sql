-- A number that grows with every change of a key or a team, whoever makes it (an older program too: hence triggers).
CREATE TABLE revision (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO revision (id, number) VALUES (1, 0);

CREATE TRIGGER key_made AFTER INSERT ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER key_changed AFTER UPDATE ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER key_gone AFTER DELETE ON keys BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER team_made AFTER INSERT ON teams BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER team_changed AFTER UPDATE ON teams BEGIN UPDATE revision SET number = number + 1; END;
CREATE TRIGGER team_gone AFTER DELETE ON teams BEGIN UPDATE revision SET number = number + 1; END;
