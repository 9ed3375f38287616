-- Version 3. Notices from judging a report: a JSON list, or null.
ALTER TABLE report ADD COLUMN notices TEXT;
