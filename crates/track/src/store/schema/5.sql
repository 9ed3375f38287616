-- Version 5. Packs the values of a report, which histories read, into one row: a hundred reports of 5,000 metrics are
-- half a million rows of `metric`, of which only the values are needed. values.rs defines the format; `values_checksum`
-- of the report covers it. Reports stored by an earlier version have no such row: their metrics are read instead.
CREATE TABLE report_values (
    report INTEGER PRIMARY KEY REFERENCES report,
    bytes BLOB NOT NULL
) STRICT;
