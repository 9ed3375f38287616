-- Version 1 on PostgreSQL: the tables of sqlite.sql, with the same names and columns.
--
-- Texts compare by bytes. Integers are as narrow as possible, and wide columns come first, because padding adds up over
-- a million metrics a day. The four tables that grow with metrics are partitioned by the month of the report, the upper
-- half of its row number; partitions.rs creates a partition for its first report. They have no foreign keys in either
-- direction: each would cost a lookup per row, and would prevent detaching a month. Digests reveal missing rows.

CREATE TABLE project (
    id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE branch (
    id BIGINT PRIMARY KEY,
    project BIGINT NOT NULL REFERENCES project,
    name TEXT COLLATE "C" NOT NULL,
    UNIQUE (project, name)
);

CREATE TABLE testbed (
    id BIGINT PRIMARY KEY,
    project BIGINT NOT NULL REFERENCES project,
    name TEXT COLLATE "C" NOT NULL,
    UNIQUE (project, name)
);

CREATE TABLE benchmark (
    id BIGINT PRIMARY KEY,
    project BIGINT NOT NULL REFERENCES project,
    name TEXT COLLATE "C" NOT NULL,
    UNIQUE (project, name)
);

CREATE TABLE measure (
    id BIGINT PRIMARY KEY,
    slug TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    units TEXT COLLATE "C" NOT NULL,
    direction TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    UNIQUE (slug, units, name, direction, kind)
);

CREATE TABLE environment (
    id BIGINT PRIMARY KEY,
    kernel TEXT COLLATE "C",
    cpu_model TEXT COLLATE "C",
    governor TEXT COLLATE "C",
    cores BIGINT,
    compiler TEXT COLLATE "C",
    wingbeat TEXT COLLATE "C"
);

CREATE TABLE report (
    id BIGINT PRIMARY KEY,
    uuid BYTEA NOT NULL UNIQUE CHECK (length(uuid) = 16),
    project BIGINT NOT NULL REFERENCES project,
    branch BIGINT NOT NULL REFERENCES branch,
    testbed BIGINT NOT NULL REFERENCES testbed,
    hash TEXT COLLATE "C",
    epoch BIGINT NOT NULL,
    start_branch BIGINT REFERENCES branch,
    start_hash TEXT COLLATE "C",
    start_until_ns BIGINT,
    start_versions_max BIGINT,
    start_time_ns BIGINT NOT NULL,
    end_time_ns BIGINT NOT NULL,
    adapter TEXT COLLATE "C" NOT NULL,
    environment BIGINT NOT NULL REFERENCES environment,
    load DOUBLE PRECISION,
    steal DOUBLE PRECISION,
    git_hash TEXT COLLATE "C",
    is_dirty BOOLEAN,
    iterations BIGINT NOT NULL,
    confirms BYTEA CHECK (length(confirms) = 16),
    metrics BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    alerts BIGINT NOT NULL,
    notable BIGINT NOT NULL,
    digest BYTEA NOT NULL CHECK (length(digest) = 32)
);
CREATE INDEX report_by_time ON report (start_time_ns, uuid);
CREATE INDEX report_by_project ON report (project, start_time_ns, uuid);
CREATE INDEX report_by_series ON report (branch, testbed, epoch, start_time_ns, uuid);
CREATE INDEX report_by_version ON report (branch, epoch, start_time_ns, uuid, hash);
CREATE INDEX report_by_hash ON report (branch, hash, start_time_ns, uuid);
CREATE INDEX report_that_confirms ON report (confirms) WHERE confirms IS NOT NULL;

-- Little-endian 64-bit floats, which do not compress.
CREATE TABLE samples (
    id BIGINT PRIMARY KEY,
    bytes BYTEA NOT NULL
) PARTITION BY RANGE (id);
ALTER TABLE samples ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE metric (
    report BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    lower DOUBLE PRECISION,
    upper DOUBLE PRECISION,
    samples BIGINT,
    benchmark INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    position INTEGER NOT NULL,
    is_ignored BOOLEAN NOT NULL,
    PRIMARY KEY (report, benchmark, measure, iteration)
) PARTITION BY RANGE (report);

CREATE TABLE failure (
    report BIGINT NOT NULL,
    position INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    benchmark INTEGER NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (report, position)
) PARTITION BY RANGE (report);

CREATE TABLE verdict (
    report BIGINT NOT NULL,
    baseline DOUBLE PRECISION,
    lower_limit DOUBLE PRECISION,
    upper_limit DOUBLE PRECISION,
    change DOUBLE PRECISION,
    change_lower DOUBLE PRECISION,
    change_upper DOUBLE PRECISION,
    p DOUBLE PRECISION,
    smallest_visible DOUBLE PRECISION,
    benchmark INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    position INTEGER NOT NULL,
    points BIGINT NOT NULL,
    has_boundary BOOLEAN NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    test TEXT COLLATE "C",
    crossed TEXT COLLATE "C",
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (report, benchmark, measure, iteration, position)
) PARTITION BY RANGE (report);

-- The condition is `NOTABLE` of history.rs.
CREATE INDEX verdict_that_stands_out ON verdict (report, outcome)
    WHERE outcome IN ('worse', 'better', 'changed', 'maybe-worse', 'maybe-better', 'maybe-changed',
                      'moved-together');

CREATE TABLE alert (
    uuid BYTEA PRIMARY KEY CHECK (length(uuid) = 16),
    report BIGINT NOT NULL,
    benchmark INTEGER NOT NULL,
    measure INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    position INTEGER NOT NULL,
    crossed TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C"
);
CREATE UNIQUE INDEX alert_by_report ON alert (report, position);

CREATE TABLE alert_change (
    uuid BYTEA PRIMARY KEY CHECK (length(uuid) = 16),
    alert BYTEA NOT NULL CHECK (length(alert) = 16),
    time_ns BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C"
);
CREATE INDEX alert_change_by_alert ON alert_change (alert, time_ns, uuid);
CREATE INDEX alert_change_by_time ON alert_change (time_ns, uuid);

CREATE TABLE withdrawal (
    uuid BYTEA PRIMARY KEY CHECK (length(uuid) = 16),
    report BYTEA NOT NULL CHECK (length(report) = 16),
    time_ns BIGINT NOT NULL,
    reason TEXT COLLATE "C"
);
CREATE INDEX withdrawal_by_report ON withdrawal (report);

CREATE TABLE profile (
    uuid BYTEA PRIMARY KEY CHECK (length(uuid) = 16),
    report BYTEA NOT NULL CHECK (length(report) = 16),
    benchmark TEXT COLLATE "C",
    kind TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    time_ns BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    hash BYTEA NOT NULL CHECK (length(hash) = 32),
    bytes BIGINT NOT NULL
);
CREATE INDEX profile_by_report ON profile (report);
CREATE INDEX profile_by_hash ON profile (hash);
CREATE INDEX profile_by_time ON profile (time_ns, uuid);

-- Profiles are already compressed.
CREATE TABLE profile_content (
    hash BYTEA PRIMARY KEY CHECK (length(hash) = 32),
    pprof BYTEA NOT NULL
);
ALTER TABLE profile_content ALTER COLUMN pprof SET STORAGE EXTERNAL;
