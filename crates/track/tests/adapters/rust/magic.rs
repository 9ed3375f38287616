//! `magic` reads each golden output as the adapter of its tool does, with whatever may stand around it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use wingbeat_track::adapter::Adapter;

/// What `cargo bench` prints around the results.
const BEFORE: &str = "   Compiling magic v0.1.0 (/src)\n    Finished `bench` profile [optimized] target(s) in 9.87s\n     \
                      Running benches/b.rs (target/release/deps/b-0123456789abcdef)\nGnuplot not found, using plotters backend\n\n";

/// The golden outputs of both suites with their adapters.
fn outputs() -> Vec<(Adapter, PathBuf)> {
    let mut outputs = Vec::new();
    for suite in ["rust", "other"] {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapters").join(suite).join("golden");
        for folder in
            fs::read_dir(golden).expect("golden").map(|entry| entry.expect("entry").path())
        {
            let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
            // The folders of Criterion are no output.
            let Ok(adapter) = name.parse() else { continue };
            let files =
                fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("entry").path());
            let files = files.filter(|file| {
                file.extension()
                    .is_some_and(|extension| extension != "expected" && extension != "md")
            });
            outputs.extend(files.map(|file| (adapter, file)));
        }
    }
    outputs.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    outputs
}

#[test]
fn each_golden_output_is_found() {
    let outputs = outputs();
    for adapter in
        Adapter::all().filter(|adapter| !matches!(adapter, Adapter::Magic | Adapter::Json))
    {
        assert!(outputs.iter().any(|output| output.0 == adapter), "no golden output of {adapter}");
    }
    for (adapter, file) in outputs {
        let output = fs::read(&file).expect("an output");
        let (expected, found) = (adapter.parse(&output, None), Adapter::Magic.parse(&output, None));
        match expected {
            Ok(expected) => assert_eq!(found, Ok(expected), "{adapter}: {}", file.display()),
            Err(_) => assert!(found.is_err(), "{adapter}: {}", file.display()),
        }
    }
}

#[test]
fn what_cargo_prints_makes_no_difference() {
    let is_of_cargo = |adapter: &Adapter| adapter.name().starts_with("rust_");
    for (adapter, file) in outputs().into_iter().filter(|output| is_of_cargo(&output.0)) {
        let output = fs::read_to_string(&file).expect("an output");
        let (alone, around) = (output.clone(), format!("{BEFORE}{output}\nerror: bench failed\n"));
        let (alone, around) =
            (adapter.parse(alone.as_bytes(), None), Adapter::Magic.parse(around.as_bytes(), None));
        assert_eq!(alone, around, "{adapter}: {}", file.display());
    }
}

#[test]
fn lines_of_windows_make_no_difference() {
    for (adapter, file) in outputs() {
        let output = fs::read_to_string(&file).expect("an output");
        let windows = output.replace('\n', "\r\n");
        let (alone, found) =
            (adapter.parse(output.as_bytes(), None), adapter.parse(windows.as_bytes(), None));
        assert_eq!(alone, found, "{adapter}: {}", file.display());
    }
}
