//! Copies a server's tables to another location of the same or the other engine: row by row, with the same IDs. A
//! digest of all rows verifies the copy.

use sha2::{Digest as _, Sha256};
use wingbeat_sql::{Connection, Inserter, Result as SqlResult, Row, ToSql, Value};

use super::{Database, Digest, StoreError};
use crate::storage::StorageError;

/// All tables, each after those it references. Series tables are derived from the results, and the target rebuilds
/// them. Claims are of servers that run.
const TABLES: [&str; 20] = [
    "setting",
    "user",
    "invite",
    "session",
    "server_project",
    "key",
    "entity",
    "threshold",
    "model",
    "plot",
    "plot_entity",
    "receipt",
    "audit",
    "branch_start",
    "profile_series",
    "profile_block",
    "profile_point",
    "profile_hour",
    "profile_push",
    "profile_garbage",
];

/// Contents of a server after its first start without users: the link for its first admin, and its URL.
const OF_FIRST_START: [&str; 2] = ["setting", "invite"];

/// Content of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub rows: u64,
    /// Over all values of all rows, in an order common to both engines.
    pub digest: Digest,
}

impl Database {
    /// Copies all rows to an empty database, in one transaction.
    pub fn copy_to(&self, to: &Self) -> Result<(), StorageError> {
        let copy = || {
            let view = self.db().view()?;
            let transaction = to.db().writing()?;
            // Left by the first start of a server, before it has users.
            for table in TABLES.iter().filter(|table| !OF_FIRST_START.contains(table)) {
                let taken = format!("SELECT 1 FROM \"{table}\" LIMIT 1");
                if transaction.prepare(&taken)?.exists([])? {
                    return Ok(false);
                }
            }
            for name in OF_FIRST_START {
                transaction.prepare(&format!("DELETE FROM {name}"))?.execute([])?;
            }
            for table in TABLES {
                copy_table(table, &view, &transaction)?;
            }
            transaction.commit()?;
            Ok(true)
        };
        match copy().map_err(to.error("copying another one to it"))? {
            true => Ok(()),
            false => Err(StorageError::Taken { path: to.results.path().to_owned() }),
        }
    }

    /// Counts and digests all rows.
    pub fn content(&self) -> Result<Content, StoreError> {
        self.doing("reading all of it", || {
            let view = self.db().view()?;
            let (mut rows, mut hash) = (0, Sha256::new());
            for table in TABLES {
                hash.update(table);
                each(table, &columns(table, &view)?, &view, |values| {
                    rows += 1;
                    values.iter().for_each(|value| digest(value, &mut hash));
                    Ok(())
                })?;
            }
            Ok(Content { rows, digest: hash.finalize().into() })
        })
    }
}

fn copy_table(table: &str, from: &Connection, to: &Connection) -> SqlResult<()> {
    let columns = columns(table, from)?;
    let quoted = format!("\"{table}\"");
    let mut inserter = Inserter::prepare(to, &quoted, &columns.join(", "))?;
    each(table, &columns, from, |values| {
        inserter.insert(&values.iter().map(|value| value as &dyn ToSql).collect::<Vec<_>>())
    })?;
    inserter.finish()?;
    // The database numbers these rows.
    if columns[0] == "\"id\"" && to.is_postgres() {
        let number = format!(
            "SELECT setval(pg_get_serial_sequence('{quoted}', 'id'), max(id)) FROM {quoted} HAVING max(id) > 0"
        );
        to.prepare(&number)?.exists([])?;
    }
    Ok(())
}

/// Columns of a table, in quotes. The key is the first one, or the first two.
fn columns(table: &str, db: &Connection) -> SqlResult<Vec<String>> {
    let sql = match db.is_postgres() {
        true => {
            "SELECT column_name::text FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name::text = ?1 ORDER BY ordinal_position"
        }
        false => "SELECT name FROM pragma_table_info(?1)",
    };
    let mut statement = db.prepare(sql)?;
    let quoted = |row: &Row<'_>| Ok(format!("\"{}\"", row.get::<_, String>(0)?));
    statement.query_map([table], quoted)?.collect()
}

/// Iterates over all rows of a table in key order.
fn each(
    table: &str,
    columns: &[String],
    db: &Connection,
    mut row: impl FnMut(&[Value]) -> SqlResult<()>,
) -> SqlResult<()> {
    let names = columns.join(", ");
    db.scan(&format!("SELECT {names} FROM \"{table}\" ORDER BY 1, 2"), |found| {
        let values: Vec<Value> =
            (0..columns.len()).map(|column| found.get(column)).collect::<SqlResult<_>>()?;
        row(&values)
    })
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
    use std::{collections::BTreeSet, path::Path};

    use wingbeat_track::{
        model::{ThresholdModel, threshold::Test},
        store::Store,
    };

    use super::*;
    use crate::database::{
        Kind, NewEntity, NewUser, PlotSettings, Role, Start, VERSIONS,
        tests::{now, on_both_with_project, open},
    };

    /// Tables derived from the results.
    const DERIVED: [&str; 3] = ["series", "series_state", "claim"];

    /// A row in each table.
    fn fill(database: &Database, project: i64) {
        let user = NewUser { name: "a".into(), email: "a@b".into(), role: Role::Admin };
        let user = database.create_user(&user, now()).expect("written").expect("made").id;
        let row = |kind| {
            let new = NewEntity { name: "ä\0b", slug: None, units: None };
            database.create_entity(project, kind, &new, now()).expect("written").expect("made").id
        };
        let place = (row(Kind::Branch), row(Kind::Testbed), row(Kind::Measure));
        let model = ThresholdModel::new(Test::Percentage).within(None, Some(0.1));
        database.set_threshold(project, place, Some(&model), now()).expect("written");
        let plot = PlotSettings {
            title: None,
            lower_value: true,
            upper_value: false,
            lower_boundary: false,
            upper_boundary: true,
            window_s: 7,
            ..PlotSettings::default()
        };
        database.create_plot(project, &plot, &[place.0], None, now()).expect("written");
        database.set_start(place.0, &Start::default()).expect("written");
        database.create_session(&[1; 32], user, now(), now()).expect("written");
        database.create_invite(None, &[2; 32], now(), now()).expect("written");
        database.set_public_url("http://a").expect("written");
        database.note("a", "b", now()).expect("written");
        for byte in 0..3 {
            let uuid = uuid::Uuid::from_bytes([byte; 16]);
            database.note_receipt(uuid, Some(user), None, now()).expect("written");
        }
    }

    #[test]
    fn a_copy_is_equal_and_goes_on() {
        on_both_with_project(|database, project| {
            fill(database, project);
            let content = database.content().expect("read");
            let folder = tempfile::tempdir().expect("a folder");
            let file = open(&folder.path().join("copy.db"));
            let mut copies = vec![file];
            if let Some(url) = wingbeat_pg_testing::database() {
                copies.push(open(Path::new(&url)));
            }
            for copy in copies {
                // A server was started there, but has no users.
                copy.create_invite(None, &[3; 32], now(), now()).expect("written");
                copy.set_public_url("http://b").expect("written");
                assert_ne!(copy.content().expect("read"), content);
                database.copy_to(&copy).expect("copied");
                assert_eq!(copy.content().expect("read"), content);
                let again = database.copy_to(&copy).expect_err("there is something");
                assert!(matches!(again, StorageError::Taken { .. }), "{again}");
                // New rows get new IDs.
                let user = NewUser { name: "c".into(), email: "c@d".into(), role: Role::Admin };
                let user = copy.create_user(&user, now()).expect("written").expect("made");
                assert_eq!(user.id, 2);
            }
        });
    }

    fn tables(db: &Connection) -> BTreeSet<String> {
        let sql = match db.is_postgres() {
            true => "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
            false => {
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            }
        };
        let mut statement = db.prepare(sql).expect("prepared");
        let rows = statement.query_map([], |row| row.get(0)).expect("read");
        rows.collect::<SqlResult<_>>().expect("read")
    }

    /// Fails if a table is missing in the list above.
    #[test]
    fn all_tables_are_copied() {
        on_both_with_project(|database, _| {
            let folder = tempfile::tempdir().expect("a folder");
            let store = Store::open(folder.path().join("results.db")).expect("a store");
            let mut known = tables(store.connection());
            known.extend(TABLES.iter().chain(&DERIVED).map(|it| (*it).to_owned()));
            known.insert(VERSIONS.to_owned());
            known.extend(database.db().is_postgres().then(|| "wingbeat_schema".to_owned()));
            assert_eq!(tables(database.db()), known);
        });
    }
}
