-- Version 5, as on SQLite. Not partitioned by month: rows are small, and are found without a lookup in each month. They
-- hardly compress.
CREATE TABLE report_values (
    report BIGINT PRIMARY KEY,
    bytes BYTEA NOT NULL
);
ALTER TABLE report_values ALTER COLUMN bytes SET STORAGE EXTERNAL;
