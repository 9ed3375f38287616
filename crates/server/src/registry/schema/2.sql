-- Version 2. One-line summaries of series, derived from the results, so that a table of thousands of series reads no
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
    -- Sparkline: little-endian 32-bit floats.
    spark BLOB NOT NULL,
    -- The last lasting change of the level; null if there is none.
    changed_report BLOB CHECK (length(changed_report) = 16),
    changed_relative REAL,
    changed_hash TEXT,
    changed_ns INTEGER,
    changed_is_recent INTEGER,
    PRIMARY KEY (project, branch, testbed, benchmark, slug, units)
) STRICT, WITHOUT ROWID;

-- The reports from which the rows of a branch and testbed were derived.
CREATE TABLE series_state (
    project INTEGER NOT NULL REFERENCES project ON DELETE CASCADE,
    branch TEXT NOT NULL,
    testbed TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (project, branch, testbed)
) STRICT, WITHOUT ROWID;
