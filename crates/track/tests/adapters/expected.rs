//! Compares what an adapter makes of an output with the expectation beside it. `UPDATE_EXPECT=1` writes the
//! expectations anew.

use std::{env, fs, path::Path};

use wingbeat_track::{adapter::Adapter, model::Average};

use crate::other::outline::outline;

/// Whose outputs: each group has its own folder `golden`, with a folder for each adapter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Group {
    Rust,
    Other,
}

/// What becomes of `file` is what `file.expected` tells.
#[track_caller]
pub(crate) fn check(group: Group, file: &str) {
    check_as(group, file, None, "expected");
}

/// What becomes of `file` with a choice of average is what `file.mean.expected` or `file.median.expected`
/// tells.
#[track_caller]
pub(crate) fn check_average(group: Group, file: &str, average: Average) {
    let extension = match average {
        Average::Mean => "mean.expected",
        Average::Median => "median.expected",
    };
    check_as(group, file, Some(average), extension);
}

#[track_caller]
fn check_as(group: Group, file: &str, average: Option<Average>, extension: &str) {
    let group = match group {
        Group::Rust => "rust",
        Group::Other => "other",
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapters").join(group);
    let folder = folder.join("golden");
    let output = fs::read(folder.join(file)).expect("the golden output");
    let adapter: Adapter = file.split('/').next().expect("a folder").parse().expect("an adapter");
    let found = match adapter.parse(&output, average) {
        Ok(results) => outline(&results),
        Err(error) => format!("{error}\n"),
    };
    let path = folder.join(format!("{file}.{extension}"));
    if env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        fs::write(&path, &found).expect("expectation written");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{file}: UPDATE_EXPECT=1 rewrites {}", path.display());
}
