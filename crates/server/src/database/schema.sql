-- Version 1 of what a server adds to a store (track/src/store/schema.sql). Times are nanoseconds since 1970. Tables of
-- the server refer to the store's by names and UUIDs, which a copy to another store keeps.

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE "user" (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('admin', 'member', 'reader')),
    -- PHC string of argon2id; null until the user has set a password.
    password TEXT,
    is_locked INTEGER NOT NULL DEFAULT 0,
    created_ns INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL
) STRICT;

-- A single-use link to set a password. `user` is null for the first admin.
CREATE TABLE invite (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    "user" INTEGER REFERENCES "user" ON DELETE CASCADE,
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    "user" INTEGER NOT NULL REFERENCES "user" ON DELETE CASCADE,
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_of_user ON session ("user");

-- `stored` is the name in the results, which never changes; `name` and `slug` may.
CREATE TABLE server_project (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    stored TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    url TEXT,
    -- Public: readable for anyone who can reach the server. Internal: only for users and keys.
    visibility TEXT NOT NULL CHECK (visibility IN ('public', 'internal')),
    -- Whether `auto` judges measures without a threshold.
    judges_by_default INTEGER NOT NULL DEFAULT 1,
    created_ns INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL
) STRICT;

-- Keys of users (`project` is null) and of projects. Stores only the SHA-256 of a key.
CREATE TABLE key (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    name TEXT NOT NULL,
    -- The user that it authenticates; for a project key its creator, if known.
    "user" INTEGER REFERENCES "user" ON DELETE CASCADE,
    project INTEGER REFERENCES server_project ON DELETE CASCADE,
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    revoked_ns INTEGER,
    CHECK ("user" IS NOT NULL OR project IS NOT NULL)
) STRICT;

-- Branches, testbeds, benchmarks and measures.
CREATE TABLE entity (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES server_project ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('branch', 'testbed', 'benchmark', 'measure')),
    uuid BLOB NOT NULL CHECK (length(uuid) = 16),
    stored TEXT NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL,
    -- Measures only.
    units TEXT,
    created_ns INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    archived_ns INTEGER,
    UNIQUE (project, kind, stored),
    UNIQUE (project, kind, name),
    UNIQUE (project, kind, slug),
    UNIQUE (project, kind, uuid)
) STRICT;

CREATE TABLE threshold (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    project INTEGER NOT NULL REFERENCES server_project ON DELETE CASCADE,
    branch INTEGER NOT NULL REFERENCES entity,
    testbed INTEGER NOT NULL REFERENCES entity,
    measure INTEGER NOT NULL REFERENCES entity,
    created_ns INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    UNIQUE (branch, testbed, measure)
) STRICT;

-- Models of thresholds; the active one has not been replaced.
CREATE TABLE model (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    threshold INTEGER NOT NULL REFERENCES threshold ON DELETE CASCADE,
    test TEXT NOT NULL,
    min_sample_size INTEGER,
    max_sample_size INTEGER,
    window_s INTEGER,
    lower_boundary REAL,
    upper_boundary REAL,
    created_ns INTEGER NOT NULL,
    replaced_ns INTEGER
) STRICT;
CREATE INDEX model_threshold ON model (threshold);
CREATE UNIQUE INDEX model_in_force ON model (threshold) WHERE replaced_ns IS NULL;

CREATE TABLE plot (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE CHECK (length(uuid) = 16),
    project INTEGER NOT NULL REFERENCES server_project ON DELETE CASCADE,
    position INTEGER NOT NULL,
    title TEXT,
    lower_value INTEGER NOT NULL,
    upper_value INTEGER NOT NULL,
    lower_boundary INTEGER NOT NULL,
    upper_boundary INTEGER NOT NULL,
    x_axis TEXT NOT NULL,
    y_axis TEXT NOT NULL,
    window_s INTEGER NOT NULL,
    created_ns INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE plot_entity (
    plot INTEGER NOT NULL REFERENCES plot ON DELETE CASCADE,
    position INTEGER NOT NULL,
    entity INTEGER NOT NULL REFERENCES entity ON DELETE CASCADE,
    PRIMARY KEY (plot, position)
) STRICT, WITHOUT ROWID;

-- How a report came here. It has no row if it was not sent, as in a copied store.
CREATE TABLE receipt (
    report BLOB PRIMARY KEY CHECK (length(report) = 16),
    -- The sender, if known.
    "user" INTEGER REFERENCES "user" ON DELETE SET NULL,
    created_ns INTEGER NOT NULL,
    -- Notices from judging it: a JSON list, or null.
    notices TEXT
) STRICT, WITHOUT ROWID;

-- Audit log.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time_ns INTEGER NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL
) STRICT;

-- Start point of the next report of a branch, if set beforehand. `start` is a name in the results.
CREATE TABLE branch_start (
    branch INTEGER PRIMARY KEY REFERENCES entity ON DELETE CASCADE,
    start TEXT,
    hash TEXT,
    max_versions INTEGER,
    is_reset INTEGER NOT NULL
) STRICT;

-- One-line summaries of series, derived from the results, so that a table of thousands of series reads no
-- history. Names are those of the results.
CREATE TABLE series (
    project INTEGER NOT NULL REFERENCES server_project ON DELETE CASCADE,
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
    project INTEGER NOT NULL REFERENCES server_project ON DELETE CASCADE,
    branch TEXT NOT NULL,
    testbed TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (project, branch, testbed)
) STRICT, WITHOUT ROWID;

-- Pushed profiles: the index of files outside the database. A series has one label set; a total sums the series of a
-- service with one kind and the same types, and has no labels.
CREATE TABLE profile_series (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of the project's UUID, service, kind, labels and types.
    key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
    project TEXT NOT NULL,
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Both in JSON.
    labels TEXT NOT NULL,
    types TEXT NOT NULL,
    shown INTEGER NOT NULL,
    newest_ns INTEGER NOT NULL,
    -- The total that sums it. Null if it is not summed, or a total itself.
    total INTEGER,
    -- Of a total: the first time that it has.
    total_from_ns INTEGER
) STRICT;
CREATE INDEX profile_series_of_project ON profile_series (project);
CREATE INDEX profile_series_of_total ON profile_series (total);

-- Files: of a window (level 0), ten minutes (1) or an hour (2).
CREATE TABLE profile_block (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    series INTEGER NOT NULL,
    level INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    -- What it is aged by: the start of its last part.
    age_ns INTEGER NOT NULL,
    windows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    -- Whether a larger block has it.
    is_merged INTEGER NOT NULL,
    -- Whether the total of its series has it, or never will.
    is_totalled INTEGER NOT NULL,
    path TEXT NOT NULL
) STRICT;
CREATE INDEX profile_block_of_series ON profile_block (series, level, start_ns);
CREATE INDEX profile_block_to_merge ON profile_block (level, end_ns) WHERE is_merged = 0;
CREATE INDEX profile_block_to_total ON profile_block (series, start_ns) WHERE is_totalled = 0;
CREATE INDEX profile_block_by_age ON profile_block (age_ns);

-- Sums of windows, so that timelines are drawn without opening files: little-endian 64-bit integers, one for each type.
CREATE TABLE profile_point (
    series INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    duration_ns INTEGER NOT NULL,
    windows REAL NOT NULL,
    sums BLOB NOT NULL,
    PRIMARY KEY (series, start_ns)
) STRICT, WITHOUT ROWID;

CREATE TABLE profile_hour (
    series INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (series, hour)
) STRICT, WITHOUT ROWID;

-- Pushes of the last day, so that a repeated one does not count twice.
CREATE TABLE profile_push (
    push TEXT PRIMARY KEY,
    time_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Files to delete, once no page reads them any more.
CREATE TABLE profile_garbage (
    path TEXT PRIMARY KEY,
    time_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which server does a job that only one may do, and until when.
CREATE TABLE claim (
    job TEXT PRIMARY KEY,
    owner BLOB NOT NULL CHECK (length(owner) = 16),
    until_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
