-- Version 2. Each row has a checksum of its other columns: XXH3 of their values in the order of checksum.rs. A report
-- also has the sums over its rows, and `total` the sum over all reports, so that missing rows are detected as well.

ALTER TABLE project ADD COLUMN checksum INTEGER;
ALTER TABLE branch ADD COLUMN checksum INTEGER;
ALTER TABLE testbed ADD COLUMN checksum INTEGER;
ALTER TABLE benchmark ADD COLUMN checksum INTEGER;
ALTER TABLE measure ADD COLUMN checksum INTEGER;
ALTER TABLE environment ADD COLUMN checksum INTEGER;
ALTER TABLE metric ADD COLUMN checksum INTEGER;
ALTER TABLE samples ADD COLUMN checksum INTEGER;
ALTER TABLE failure ADD COLUMN checksum INTEGER;
ALTER TABLE verdict ADD COLUMN checksum INTEGER;
ALTER TABLE alert ADD COLUMN checksum INTEGER;
ALTER TABLE alert_change ADD COLUMN checksum INTEGER;

-- Number of rows that belong to the report.
ALTER TABLE report ADD COLUMN metrics INTEGER;
ALTER TABLE report ADD COLUMN failures INTEGER;
ALTER TABLE report ADD COLUMN alerts INTEGER;
-- Sums over all its rows; over the parts of metrics that a history reads; over what stands out.
ALTER TABLE report ADD COLUMN content_checksum INTEGER;
ALTER TABLE report ADD COLUMN values_checksum INTEGER;
ALTER TABLE report ADD COLUMN marks_checksum INTEGER;
ALTER TABLE report ADD COLUMN checksum INTEGER;

-- Plots and histories also show possible spikes. The condition is that of `marks` in past.rs.
DROP INDEX verdict_that_stands_out;
CREATE INDEX verdict_that_stands_out ON verdict (report, outcome)
    WHERE outcome IN ('worse', 'better', 'changed', 'maybe-worse', 'maybe-better', 'maybe-changed',
                      'moved-together');

-- Few reports confirm another.
CREATE INDEX report_that_confirms ON report (confirms) WHERE confirms IS NOT NULL;

-- One row: counts of reports and of changes of alerts, with the sums of their checksums.
CREATE TABLE total (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    reports INTEGER NOT NULL,
    reports_checksum INTEGER NOT NULL,
    alert_changes INTEGER NOT NULL,
    alert_changes_checksum INTEGER NOT NULL
) STRICT;
INSERT INTO total VALUES (1, 0, 0, 0, 0);

-- A wingbeat that had the store open during this migration writes no checksums.
CREATE TRIGGER report_without_checksum BEFORE INSERT ON report WHEN NEW.checksum IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a newer wingbeat has brought this store to version 2 meanwhile');
END;
CREATE TRIGGER alert_change_without_checksum BEFORE INSERT ON alert_change WHEN NEW.checksum IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a newer wingbeat has brought this store to version 2 meanwhile');
END;
