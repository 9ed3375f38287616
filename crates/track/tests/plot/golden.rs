//! Snapshots of plots. `UPDATE_EXPECT=1` rewrites them: then inspect them.

use std::{env, fs, path::Path};

use crate::histories::*;

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plot/golden").join(name);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, found).expect("written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} differs; UPDATE_EXPECT=1 writes it anew, then look at it");
}

/// Strips escape sequences, which would hide the differences.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\u{1b}');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    out
}

fn shown(chart: &Chart, columns: usize) -> String {
    plain(&terminal(chart, Some(columns)))
}

#[test]
fn pictures() {
    check("busy.svg", &svg(&busy()));
    check("single.svg", &svg(&single()));
    check("iterations.svg", &svg(&iterations()));
    check("odd.svg", &svg(&odd()));
    check("wide.svg", &svg(&wide()));
    check("steps.svg", &svg(&steps_together()));
}

#[test]
fn terminals() {
    check("busy.txt", &shown(&busy(), 100));
    check("single.txt", &shown(&single(), 60));
    check("odd.txt", &shown(&odd(), 80));
    check("wide.txt", &shown(&wide(), 80));
}
