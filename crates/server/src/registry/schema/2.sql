-- Version 2. Series in one line each, made of the results, so that a table of thousands of them reads no
-- history. Names are those of the results.
CREATE TABLE series (
    project INTEGER NOT NULL REFERENCES project ON DELETE CASCADE,
    branch TEXT NOT NULL,
    testbed TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    slug TEXT NOT NULL,
    units TEXT NOT NULL,
    -- The measure in JSON.
    measure TEXT NOT NULL,
    value REAL NOT NULL,
    report BLOB NOT NULL CHECK (length(report) = 16),
    time_ns INTEGER NOT NULL,
    change_30d REAL,
    -- Values to draw: little-endian 32-bit floats.
    spark BLOB NOT NULL,
    -- The last lasting change of the level; empty if there is none.
    changed_report BLOB CHECK (length(changed_report) = 16),
    changed_relative REAL,
    changed_hash TEXT,
    changed_ns INTEGER,
    changed_is_recent INTEGER,
    PRIMARY KEY (project, branch, testbed, benchmark, slug, units)
) STRICT, WITHOUT ROWID;

-- Of which reports the rows of a branch and a testbed were made.
CREATE TABLE series_state (
    project INTEGER NOT NULL REFERENCES project ON DELETE CASCADE,
    branch TEXT NOT NULL,
    testbed TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (project, branch, testbed)
) STRICT, WITHOUT ROWID;
