-- Version 5, as in SQLite. Not divided by months: a row is small, and is found without a look at each month. Compression would
-- hardly make it smaller.
CREATE TABLE report_values (
    report BIGINT PRIMARY KEY,
    bytes BYTEA NOT NULL
);
ALTER TABLE report_values ALTER COLUMN bytes SET STORAGE EXTERNAL;
