-- See 3.sql.
ALTER TABLE report ADD COLUMN notices TEXT COLLATE "C";
