//! Values and rows round-trip on both engines.

use wingbeat_sql::{
    Connection, Error, Fault, Inserter, Many, OptionalExtension as _, Value, params,
};

use crate::on_both;

/// Creates a table with a column of each type, in the engine's dialect.
fn make(db: &Connection) {
    let sql = match db.is_postgres() {
        true => {
            "CREATE TABLE kinds (id BIGINT PRIMARY KEY, number INTEGER, value DOUBLE PRECISION,
                                 name TEXT COLLATE \"C\" UNIQUE, bytes BYTEA)"
        }
        false => {
            "CREATE TABLE kinds (id INTEGER PRIMARY KEY, number INTEGER, value REAL,
                                 name TEXT UNIQUE, bytes BLOB) STRICT"
        }
    };
    db.execute_batch(sql).expect("made");
}

const COLUMNS: &str = "id, number, value, name, bytes";

fn insert(db: &Connection, id: i64, number: Option<i64>, value: f64, name: &str, bytes: &[u8]) {
    let mut inserter = Inserter::prepare(db, "kinds", COLUMNS).expect("a statement");
    inserter.insert(params![id, number, value, name, bytes]).expect("taken");
    inserter.finish().expect("inserted");
}

#[test]
fn values_come_back() {
    on_both(|db| {
        make(db);
        let check = |id: i64, number: Option<i64>, value: f64, name: &str, bytes: &[u8]| {
            insert(db, id, number, value, name, bytes);
            let sql = format!("SELECT {COLUMNS} FROM kinds WHERE id = ?1 AND name = ?2");
            db.query_row(&sql, params![id, name], |row| {
                assert_eq!(row.get::<_, i64>(0)?, id);
                assert_eq!(row.get::<_, Option<i64>>("number")?, number);
                assert_eq!(row.get::<_, f64>("value")?.to_bits(), value.to_bits());
                assert_eq!(row.get::<_, String>(3)?, name);
                assert_eq!(row.get::<_, Value>("bytes")?, Value::Blob(bytes.to_vec()));
                assert_eq!(row.get_ref(3)?.as_str().map_err(Error::content)?, name);
                Ok(())
            })
            .expect("the row");
        };
        check(1, Some(7), 0.1, "plain", b"\0\x01\xff");
        check(i64::MAX, None, 1e300, "ä \u{1F600}", b"");
        check(i64::MIN, Some(-1), f64::MIN_POSITIVE, "nul \0 and \u{1}0", b"\x01");
        check(0, Some(0), 1.0 / 3.0, "", &[7; 100_000]);
    });
}

#[test]
fn texts_sort_by_bytes() {
    on_both(|db| {
        make(db);
        for (id, name) in (0..).zip(["b", "a", "B", "ä", "a b", "ab"]) {
            insert(db, id, None, 0.0, name, b"");
        }
        let mut statement = db.prepare("SELECT name FROM kinds ORDER BY name").expect("prepared");
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
        let names: Vec<_> = rows.collect::<Result<_, _>>().expect("names");
        assert_eq!(names, ["B", "a", "a b", "ab", "b", "ä"]);
    });
}

#[test]
fn many_rows_and_many_keys() {
    on_both(|db| {
        make(db);
        let mut inserter = Inserter::prepare(db, "kinds", COLUMNS).expect("a statement");
        for id in 0..5_000_i64 {
            let name = format!("name {id}");
            inserter.insert(params![id, id % 10, 0.5, name, None::<Vec<u8>>]).expect("taken");
        }
        inserter.finish().expect("inserted");
        let sql = "SELECT id, name FROM kinds WHERE number = ?1 AND id < 100 ORDER BY id";
        let mut many = Many::prepare(db, sql, 4).expect("prepared");
        many.expect((0..10).chain(0..10));
        for number in [0, 3, 9, 3, 11] {
            let mut rows = many.query(number).expect("rows");
            let mut found = Vec::new();
            while let Some(row) = rows.next().expect("a row") {
                found.push(row.get::<_, i64>(0).expect("a number"));
            }
            let expected =
                if number < 10 { (0..10).map(|ten| ten * 10 + number).collect() } else { vec![] };
            assert_eq!(found, expected, "{number}");
        }
        let (mut rows, mut sum) = (0, 0);
        db.scan("SELECT id FROM kinds", |row| {
            rows += 1;
            sum += row.get::<_, i64>(0)?;
            Ok(())
        })
        .expect("scanned");
        assert_eq!((rows, sum), (5_000, 4_999 * 2_500));
    });
}

#[test]
fn conditions_on_what_may_be_missing() {
    on_both(|db| {
        make(db);
        insert(db, 1, None, 0.0, "none", b"");
        insert(db, 2, Some(2), 0.0, "two", b"");
        let of = |number: Option<i64>| {
            let sql = "SELECT name FROM kinds WHERE number IS NOT DISTINCT FROM ?1";
            db.query_row(sql, [number], |row| row.get::<_, String>(0)).optional().expect("read")
        };
        assert_eq!(of(None).as_deref(), Some("none"));
        assert_eq!(of(Some(2)).as_deref(), Some("two"));
        assert_eq!(of(Some(3)), None);
        let sql = "UPDATE kinds SET number = ?2 WHERE id = ?1";
        assert_eq!(db.execute(sql, params![1, 5]).expect("changed"), 1);
        assert_eq!(db.execute(sql, params![9, 5]).expect("nothing"), 0);
        let sql = "INSERT INTO kinds (id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        assert_eq!(db.execute(sql, params![1, "none"]).expect("nothing"), 0);
        let sql = "INSERT INTO kinds (id, name) VALUES (?1, ?2) RETURNING id";
        assert_eq!(
            db.query_row(sql, params![7, "new"], |row| row.get::<_, i64>(0)).expect("made"),
            7
        );
    });
}

#[test]
fn transactions_are_whole_or_not_at_all() {
    on_both(|db| {
        make(db);
        let count = || db.query_row("SELECT count(*) FROM kinds", [], |row| row.get::<_, i64>(0));
        let transaction = db.writing().expect("begun");
        insert(&transaction, 1, None, 0.0, "a", b"");
        drop(transaction);
        assert_eq!(count().expect("a count"), 0);
        let transaction = db.writing().expect("begun");
        insert(&transaction, 1, None, 0.0, "a", b"");
        let twice = "INSERT INTO kinds (id, name) VALUES (1, 'b')";
        transaction.execute_batch("SAVEPOINT one").expect("a place");
        let error = transaction.execute(twice, []).expect_err("it is there");
        assert_eq!(error.fault(), Fault::Contradiction);
        transaction.execute_batch("ROLLBACK TO one").expect("back");
        transaction.commit().expect("written");
        assert!(db.is_autocommit());
        let view = db.view().expect("begun");
        assert_eq!(count().expect("a count"), 1);
        assert!(!db.is_autocommit());
        drop(view);
        assert!(db.is_autocommit());
    });
}

#[test]
fn values_of_another_kind_are_errors() {
    on_both(|db| {
        make(db);
        insert(db, 1, None, 0.5, "a", b"");
        let read = |column: &'static str| {
            db.query_row("SELECT number, name FROM kinds", [], |row| row.get::<_, i64>(column))
        };
        for column in ["number", "name", "nowhere"] {
            let error = read(column).expect_err("no number");
            let is_expected = matches!(error.fault(), Fault::Content | Fault::Other);
            assert!(is_expected, "{column}: {error:?}");
        }
        let error = db.query_row("SELECT 1 FROM nowhere", [], |_| Ok(())).expect_err("no table");
        assert_eq!(error.fault(), Fault::Tables, "{error}");
        let error = db
            .query_row("SELECT id FROM kinds WHERE id = ?1", [2], |_| Ok(()))
            .expect_err("no row");
        assert!(matches!(error, Error::NoRow));
    });
}
