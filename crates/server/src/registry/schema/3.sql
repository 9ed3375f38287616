-- Version 3. What was noticed about a report when this server judged it, in JSON: a list. Null if nothing was.
ALTER TABLE report ADD COLUMN notices TEXT;
