-- Version 1. Times are nanoseconds since 1970 in UTC, identifiers are the 16 bytes of a UUID.
--
-- On PostgreSQL, integers are as narrow as possible, and wide columns come first, because padding adds up over a million
-- metrics a day. The four tables that grow with metrics are partitioned by the month of the report, the upper half of
-- its row number; partitions.rs creates a partition for its first report. They have no foreign keys in either direction:
-- each would cost a lookup per row, and would prevent detaching a month. Digests reveal missing rows.

CREATE TABLE project (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE branch (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    name TEXT NOT NULL,
    UNIQUE (project, name)
) STRICT;

CREATE TABLE testbed (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    name TEXT NOT NULL,
    UNIQUE (project, name)
) STRICT;

CREATE TABLE benchmark (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    name TEXT NOT NULL,
    UNIQUE (project, name)
) STRICT;

-- A slug may occur with several units or directions: each report keeps what it was written with.
CREATE TABLE measure (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    units TEXT NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('lower-is-better', 'higher-is-better', 'unknown')),
    kind TEXT NOT NULL CHECK (kind IN ('exact', 'noisy')),
    UNIQUE (slug, units, name, direction, kind)
) STRICT;

-- Properties that are constant on an unchanged machine. The others are in the report.
CREATE TABLE environment (
    id INTEGER PRIMARY KEY,
    kernel TEXT,
    cpu_model TEXT,
    governor TEXT,
    cores INTEGER,
    compiler TEXT,
    wingbeat TEXT
) STRICT;
CREATE INDEX environment_by_content ON environment (kernel, cpu_model, governor, cores, compiler, wingbeat); -- postgres:

CREATE TABLE report (
    id INTEGER PRIMARY KEY,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    project INTEGER NOT NULL REFERENCES project,
    branch INTEGER NOT NULL REFERENCES branch,
    testbed INTEGER NOT NULL REFERENCES testbed,
    hash TEXT,
    epoch INTEGER NOT NULL,
    start_branch INTEGER REFERENCES branch,
    start_hash TEXT,
    start_until_ns INTEGER,
    start_versions_max INTEGER,
    start_time_ns INTEGER NOT NULL,
    end_time_ns INTEGER NOT NULL,
    adapter TEXT NOT NULL,
    environment INTEGER NOT NULL REFERENCES environment,
    load REAL,
    steal REAL,
    git_hash TEXT,
    is_dirty INTEGER, -- postgres: is_dirty BOOLEAN,
    iterations INTEGER NOT NULL,
    -- Not a reference: the other report may reach this store later.
    confirms BLOB CHECK (length(confirms) = 16),
    -- Number of rows that belong to it, and of verdicts that stand out.
    metrics INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    alerts INTEGER NOT NULL,
    notable INTEGER NOT NULL,
    -- SHA-256 of its canonical document (document.rs).
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;
CREATE INDEX report_by_time ON report (start_time_ns, uuid);
CREATE INDEX report_by_project ON report (project, start_time_ns, uuid);
CREATE INDEX report_by_series ON report (branch, testbed, epoch, start_time_ns, uuid);
CREATE INDEX report_by_version ON report (branch, epoch, start_time_ns, uuid, hash);
CREATE INDEX report_by_hash ON report (branch, hash, start_time_ns, uuid);
-- Few reports confirm another.
CREATE INDEX report_that_confirms ON report (confirms) WHERE confirms IS NOT NULL;

-- Little-endian 64-bit floats in the order of measurement, which do not compress.
CREATE TABLE samples (
    id INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL CHECK (length(bytes) % 8 = 0)
) STRICT; -- postgres: ) PARTITION BY RANGE (id);
-- postgres: ALTER TABLE samples ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- The rows of a report are clustered, so that a history reads one contiguous range of pages per report, and one series
-- takes one search per report. `position` is the order of the output.
CREATE TABLE metric (
    report INTEGER NOT NULL REFERENCES report, -- postgres: report BIGINT NOT NULL,
    value REAL NOT NULL,
    lower REAL,
    upper REAL,
    samples INTEGER REFERENCES samples, -- postgres: samples BIGINT,
    benchmark INT NOT NULL REFERENCES benchmark, -- postgres: benchmark INT NOT NULL,
    measure INT NOT NULL REFERENCES measure, -- postgres: measure INT NOT NULL,
    iteration INT NOT NULL,
    position INT NOT NULL,
    is_ignored INT NOT NULL, -- postgres: is_ignored BOOLEAN NOT NULL,
    PRIMARY KEY (report, benchmark, measure, iteration)
) STRICT, WITHOUT ROWID; -- postgres: ) PARTITION BY RANGE (report);

CREATE TABLE failure (
    report INTEGER NOT NULL REFERENCES report, -- postgres: report BIGINT NOT NULL,
    position INT NOT NULL,
    iteration INT NOT NULL,
    benchmark INT NOT NULL REFERENCES benchmark, -- postgres: benchmark INT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (report, position)
) STRICT, WITHOUT ROWID; -- postgres: ) PARTITION BY RANGE (report);

-- A verdict and its boundary. `has_boundary` distinguishes an empty boundary from none; `reason` is JSON.
CREATE TABLE verdict (
    report INTEGER NOT NULL,
    baseline REAL,
    lower_limit REAL,
    upper_limit REAL,
    change REAL,
    change_lower REAL,
    change_upper REAL,
    p REAL,
    smallest_visible REAL,
    benchmark INT NOT NULL,
    measure INT NOT NULL,
    iteration INT NOT NULL,
    position INT NOT NULL,
    points INTEGER NOT NULL,
    has_boundary INT NOT NULL, -- postgres: has_boundary BOOLEAN NOT NULL,
    outcome TEXT NOT NULL,
    test TEXT,
    crossed TEXT CHECK (crossed IN ('lower', 'upper')),
    reason TEXT NOT NULL,
    FOREIGN KEY (report, benchmark, measure, iteration) REFERENCES metric, -- postgres:
    PRIMARY KEY (report, benchmark, measure, iteration, position)
) STRICT, WITHOUT ROWID; -- postgres: ) PARTITION BY RANGE (report);

-- Few verdicts stand out, and a history reads those of many reports. The condition is `NOTABLE` of history.rs.
CREATE INDEX verdict_that_stands_out ON verdict (report, outcome)
    WHERE outcome IN ('worse', 'better', 'changed', 'maybe-worse', 'maybe-better', 'maybe-changed',
                      'moved-together');

-- `status` and `reason` are as the alert was raised; `alert_change` has later changes.
CREATE TABLE alert (
    uuid BLOB NOT NULL CHECK (length(uuid) = 16),
    report INTEGER NOT NULL,
    benchmark INT NOT NULL,
    measure INT NOT NULL,
    iteration INT NOT NULL,
    position INT NOT NULL,
    crossed TEXT NOT NULL CHECK (crossed IN ('lower', 'upper')),
    status TEXT NOT NULL CHECK (status IN ('active', 'dismissed', 'silenced')),
    reason TEXT,
    FOREIGN KEY (report, benchmark, measure, iteration) REFERENCES metric, -- postgres:
    PRIMARY KEY (uuid)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX alert_by_report ON alert (report, position);

-- The last change of an alert, by time and then UUID, is its status. The alert may arrive after the change, because
-- files are imported in any order.
CREATE TABLE alert_change (
    uuid BLOB PRIMARY KEY CHECK (length(uuid) = 16),
    alert BLOB NOT NULL CHECK (length(alert) = 16),
    time_ns INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'dismissed', 'silenced')),
    reason TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX alert_change_by_alert ON alert_change (alert, time_ns, uuid);
CREATE INDEX alert_change_by_time ON alert_change (time_ns, uuid);

-- A withdrawn report stays in the store, but is hidden from all lists, histories and plots. A withdrawal is a separate
-- record that is only ever added, like a change of an alert. It may arrive before its report.
CREATE TABLE withdrawal (
    uuid BLOB PRIMARY KEY CHECK (length(uuid) = 16),
    report BLOB NOT NULL CHECK (length(report) = 16),
    time_ns INTEGER NOT NULL,
    reason TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX withdrawal_by_report ON withdrawal (report);

-- A profile of a benchmark is a separate record that is only ever added. It may arrive before its report. Its content is
-- stored once per hash, and deleted by retention, which keeps the record.
CREATE TABLE profile (
    uuid BLOB PRIMARY KEY CHECK (length(uuid) = 16),
    report BLOB NOT NULL CHECK (length(report) = 16),
    benchmark TEXT,
    kind TEXT NOT NULL,
    tool TEXT NOT NULL,
    time_ns INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX profile_by_report ON profile (report);
CREATE INDEX profile_by_hash ON profile (hash);
CREATE INDEX profile_by_time ON profile (time_ns, uuid);

-- Profiles are already compressed.
CREATE TABLE profile_content (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    pprof BLOB NOT NULL
) STRICT;
-- postgres: ALTER TABLE profile_content ALTER COLUMN pprof SET STORAGE EXTERNAL;
