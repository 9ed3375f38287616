-- Version 4. A profile of a benchmark is a separate record that is only ever added. It may arrive before its report.
-- Its content is stored once per hash, and deleted by retention, which keeps the record.
CREATE TABLE profile (
    uuid BLOB PRIMARY KEY CHECK (length(uuid) = 16),
    report BLOB NOT NULL CHECK (length(report) = 16),
    benchmark TEXT,
    kind TEXT NOT NULL,
    tool TEXT NOT NULL,
    time_ns INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX profile_by_report ON profile (report);
CREATE INDEX profile_by_hash ON profile (hash);
CREATE INDEX profile_by_time ON profile (time_ns, uuid);

CREATE TABLE profile_content (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    pprof BLOB NOT NULL
) STRICT;

ALTER TABLE total ADD COLUMN profiles INTEGER NOT NULL DEFAULT 0;
ALTER TABLE total ADD COLUMN profiles_checksum INTEGER NOT NULL DEFAULT 0;
