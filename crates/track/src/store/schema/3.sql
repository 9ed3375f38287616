-- Version 3. A withdrawn report stays in the store, but is hidden from all lists, histories and plots. A withdrawal is
-- a separate record that is only ever added, like a change of an alert. It may arrive before its report, because files
-- are imported in any order.
CREATE TABLE withdrawal (
    uuid BLOB PRIMARY KEY CHECK (length(uuid) = 16),
    report BLOB NOT NULL CHECK (length(report) = 16),
    time_ns INTEGER NOT NULL,
    reason TEXT,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX withdrawal_by_report ON withdrawal (report);

ALTER TABLE total ADD COLUMN withdrawals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE total ADD COLUMN withdrawals_checksum INTEGER NOT NULL DEFAULT 0;
