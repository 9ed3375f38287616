//! Golden files: reviewed expected output.

use std::path::Path;
use std::{env, fs};

/// Compares with `golden/NAME` in the tests' folder, line by line; `UPDATE_EXPECT=1` writes the file instead.
#[track_caller]
pub(crate) fn check(name: &str, actual: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(env!("CARGO_CRATE_NAME"));
    let path = folder.join("golden").join(name);
    if env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let lines = expected.lines().chain([""]).zip(actual.lines().chain([""]));
    for (position, (expected, actual)) in lines.enumerate() {
        assert_eq!(
            actual,
            expected,
            "{}:{} differs; UPDATE_EXPECT=1 rewrites it",
            path.display(),
            position + 1
        );
    }
    assert_eq!(actual, expected, "{} differs in length", path.display());
}
