//! Copies a registry to another location of the same or the other engine: row by row, with the same IDs, so that UUIDs
//! of metrics stay valid. A digest of all rows verifies the copy.

use sha2::{Digest as _, Sha256};
use wingbeat_sql::{Connection, Inserter, Result as SqlResult, ToSql, Value};

use super::{Digest, Registry, RegistryError};

/// A table and its key.
struct Table {
    name: &'static str,
    columns: &'static str,
    key: &'static str,
    /// Whether the database numbers its rows.
    is_numbered: bool,
}

const fn numbered(name: &'static str, columns: &'static str) -> Table {
    Table { name, columns, key: "id", is_numbered: true }
}

/// All tables, each after those it references. Series tables are derived from the results, and the target rebuilds
/// them.
const TABLES: [Table; 13] = [
    Table { name: "setting", columns: "name, value", key: "name", is_numbered: false },
    numbered(
        "\"user\"",
        "id, uuid, name, slug, email, role, password, is_locked, created_ns, modified_ns",
    ),
    Table {
        name: "invite",
        columns: "hash, \"user\", created_ns, expires_ns",
        key: "hash",
        is_numbered: false,
    },
    Table {
        name: "session",
        columns: "hash, \"user\", created_ns, expires_ns",
        key: "hash",
        is_numbered: false,
    },
    numbered(
        "project",
        "id, uuid, stored, name, slug, url, visibility, judges_by_default, created_ns, modified_ns",
    ),
    numbered("key", "id, uuid, hash, name, \"user\", project, created_ns, expires_ns, revoked_ns"),
    numbered(
        "thing",
        "id, project, kind, uuid, stored, name, slug, units, created_ns, modified_ns, archived_ns",
    ),
    numbered("threshold", "id, uuid, project, branch, testbed, measure, created_ns, modified_ns"),
    numbered(
        "model",
        "id, uuid, threshold, test, min_sample_size, max_sample_size, window_s, lower_boundary, \
         upper_boundary, created_ns, replaced_ns",
    ),
    numbered(
        "plot",
        "id, uuid, project, position, title, lower_value, upper_value, lower_boundary, upper_boundary, \
         x_axis, y_axis, window_s, created_ns, modified_ns",
    ),
    Table {
        name: "plot_thing",
        columns: "plot, position, thing",
        key: "plot, position",
        is_numbered: false,
    },
    numbered("report", "id, uuid, project, \"user\", created_ns, notices"),
    numbered("audit", "id, time_ns, who, what"),
];

/// The only table whose rows reference entities and have no ID.
const STARTS: Table = Table {
    name: "branch_start",
    columns: "branch, start, hash, max_versions, is_reset",
    key: "branch",
    is_numbered: false,
};

/// Contents of a server after its first start without users: the link for its first admin, and its URL.
const OF_FIRST_START: [&str; 2] = ["setting", "invite"];

fn tables() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().chain([&STARTS])
}

/// Content of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub rows: u64,
    /// Over all values of all rows, in an order common to both engines.
    pub digest: Digest,
}

impl Registry {
    /// Copies all rows to an empty registry, in one transaction.
    pub fn copy_to(&self, to: &Self) -> Result<(), RegistryError> {
        let copy = || {
            let view = self.connection.view()?;
            let transaction = to.connection.writing()?;
            // Left by the first start of a server, before it has users.
            for table in tables().filter(|table| !OF_FIRST_START.contains(&table.name)) {
                let taken = format!("SELECT 1 FROM {} LIMIT 1", table.name);
                if transaction.prepare(&taken)?.exists([])? {
                    return Ok(false);
                }
            }
            for name in OF_FIRST_START {
                transaction.prepare(&format!("DELETE FROM {name}"))?.execute([])?;
            }
            for table in tables() {
                table.copy(&view, &transaction)?;
            }
            transaction.commit()?;
            Ok(true)
        };
        match copy().map_err(to.error("copying another one to it"))? {
            true => Ok(()),
            false => Err(RegistryError::Taken { place: to.place.clone() }),
        }
    }

    /// Counts and digests all rows.
    pub fn content(&self) -> Result<Content, RegistryError> {
        let read = || {
            let view = self.connection.view()?;
            let (mut rows, mut hash) = (0, Sha256::new());
            for table in tables() {
                hash.update(table.name);
                table.each(&view, |values| {
                    rows += 1;
                    values.iter().for_each(|value| digest(value, &mut hash));
                    Ok(())
                })?;
            }
            Ok(Content { rows, digest: hash.finalize().into() })
        };
        read().map_err(self.error("reading all of it"))
    }
}

impl Table {
    fn copy(&self, from: &Connection, to: &Connection) -> SqlResult<()> {
        let mut inserter = Inserter::prepare(to, self.name, self.columns)?;
        self.each(from, |values| inserter.insert(values.iter().map(|value| value as &dyn ToSql)))?;
        inserter.finish()?;
        if self.is_numbered && to.is_postgres() {
            let name = self.name;
            let number = format!(
                "SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) FROM {name} HAVING max(id) > 0"
            );
            to.prepare(&number)?.exists([])?;
        }
        Ok(())
    }

    /// Iterates over all rows in key order.
    fn each(
        &self,
        db: &Connection,
        mut row: impl FnMut(&[Value]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let Self { name, columns, key, .. } = self;
        let count = columns.split(',').count();
        db.scan(&format!("SELECT {columns} FROM {name} ORDER BY {key}"), |found| {
            let values: Vec<Value> =
                (0..count).map(|column| found.get(column)).collect::<SqlResult<_>>()?;
            row(&values)
        })
    }
}

/// Hashes a value with its type and length, so that encodings are unambiguous.
fn digest(value: &Value, hash: &mut Sha256) {
    let (kind, bytes): (u8, Vec<u8>) = match value {
        Value::Null => (0, Vec::new()),
        Value::Integer(number) => (1, number.to_le_bytes().into()),
        Value::Real(number) => (2, number.to_bits().to_le_bytes().into()),
        Value::Text(text) => (3, text.as_bytes().into()),
        Value::Blob(bytes) => (4, bytes.clone()),
    };
    hash.update([kind]);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use wingbeat_sql::PostgresUrl;
    use wingbeat_track::model::{ThresholdModel, threshold::Test};

    use super::*;
    use crate::registry::{
        Kind, NewEntity, NewUser, PlotSettings, Role, Start, tests::now,
        tests::on_both_with_project,
    };

    /// Tables derived from the results.
    const DERIVED: [&str; 2] = ["series", "series_state"];

    /// A row in each table.
    fn fill(registry: &Registry, project: i64) {
        let user = NewUser { name: "a".into(), email: "a@b".into(), role: Role::Admin };
        let user = registry.create_user(&user, now()).expect("written").expect("made").id;
        let row = |kind| {
            let new = NewEntity { name: "ä\0b", slug: None, units: None };
            registry.create_entity(project, kind, &new, now()).expect("written").expect("made").id
        };
        let place = (row(Kind::Branch), row(Kind::Testbed), row(Kind::Measure));
        let model = ThresholdModel::new(Test::Percentage).within(None, Some(0.1));
        registry.set_threshold(project, place, Some(&model), now()).expect("written");
        let plot = PlotSettings {
            title: None,
            lower_value: true,
            upper_value: false,
            lower_boundary: false,
            upper_boundary: true,
            x_axis: "date_time".into(),
            y_axis: "auto".into(),
            window_s: 7,
        };
        registry.create_plot(project, &plot, &[place.0], None, now()).expect("written");
        registry.set_start(place.0, &Start::default()).expect("written");
        registry.create_session(&[1; 32], user, now(), now()).expect("written");
        registry.create_invite(None, &[2; 32], now(), now()).expect("written");
        registry.set_public_url("http://a").expect("written");
        registry.note("a", "b", now()).expect("written");
        for byte in 0..3 {
            let uuid = uuid::Uuid::from_bytes([byte; 16]);
            registry.add_report(uuid, project, Some(user), now()).expect("written");
        }
    }

    #[test]
    fn a_copy_is_equal_and_goes_on() {
        on_both_with_project(|registry, project| {
            fill(registry, project);
            let content = registry.content().expect("read");
            let folder = tempfile::tempdir().expect("a folder");
            let file = Registry::open(&folder.path().join("copy.db")).expect("a registry");
            let mut copies = vec![file];
            if let Some(url) = wingbeat_pg_testing::database() {
                let url = PostgresUrl::parse(&url).expect("a URL");
                copies.push(Registry::open_at(&url).expect("a registry"));
            }
            for copy in copies {
                // A server was started there, but has no users.
                copy.create_invite(None, &[3; 32], now(), now()).expect("written");
                copy.set_public_url("http://b").expect("written");
                assert_ne!(copy.content().expect("read"), content);
                registry.copy_to(&copy).expect("copied");
                assert_eq!(copy.content().expect("read"), content);
                let again = registry.copy_to(&copy).expect_err("there is something");
                assert!(matches!(again, RegistryError::Taken { .. }), "{again}");
                // New rows get new IDs.
                let report = copy.add_report(uuid::Uuid::now_v7(), project, None, now());
                assert_eq!(report.expect("written").id, 4);
            }
        });
    }

    /// Fails if a column is missing in the lists above.
    #[test]
    fn all_columns_are_copied() {
        on_both_with_project(|registry, _| {
            let db = &registry.connection;
            let names = |sql: &str| -> Vec<String> {
                let mut statement = db.prepare(sql).expect("prepared");
                let rows = statement.query_map([], |row| row.get(0)).expect("read");
                let mut names: Vec<String> = rows.collect::<SqlResult<_>>().expect("read");
                names.sort_unstable();
                names
            };
            let is_postgres = db.is_postgres();
            let listed = match is_postgres {
                true => names(
                    "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
                ),
                false => names(
                    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
                ),
            };
            let mut known: Vec<String> =
                tables().map(|table| table.name.trim_matches('"').to_owned()).collect();
            known.extend(DERIVED.map(str::to_owned));
            known.extend(is_postgres.then(|| "wingbeat_schema".to_owned()));
            known.sort_unstable();
            assert_eq!(listed, known);
            for table in tables() {
                let name = table.name.trim_matches('"');
                let found = match is_postgres {
                    true => names(&format!(
                        "SELECT column_name::text FROM information_schema.columns \
                         WHERE table_schema = current_schema() AND table_name = '{name}'"
                    )),
                    false => names(&format!("SELECT name FROM pragma_table_info('{name}')")),
                };
                let mut columns: Vec<String> =
                    table.columns.split(", ").map(|it| it.trim_matches('"').to_owned()).collect();
                columns.sort_unstable();
                assert_eq!(columns, found, "{name}");
            }
        });
    }
}
