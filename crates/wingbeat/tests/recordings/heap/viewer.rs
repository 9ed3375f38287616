//! Compares the DHAT file with valgrind's, and opens it in DHAT's viewer.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    heap::support::{build, finished, heap, turn_for_heap},
    ran::Ran,
};

/// Blocks of many sizes, some of which stay; nothing that DHAT counts differently, such as `realloc`.
const MIXED: &str = r#"
static void *kept[300];
OWN void *some(int i) { return used(malloc(1 + i * 37 % 5000)); }
OWN void *clean(int i) { return used(calloc(1 + i % 9, 24)); }
int main(void) {
    for (int i = 0; i < 20000; i++) {
        free(kept[i % 300]);
        kept[i % 300] = i % 3 ? some(i) : clean(i);
    }
    for (int i = 0; i < 200; i++) free(kept[i]);
    return 0;
}
"#;

/// Install paths of valgrind's viewer.
const VIEWERS: [&str; 3] = [
    "/usr/libexec/valgrind/dh_view.html",
    "/usr/lib/valgrind/dh_view.html",
    "/usr/lib/x86_64-linux-gnu/valgrind/dh_view.html",
];

/// Reports a missing test dependency; a failure in CI, except in guests, which only have the test programs.
fn skipped(missing: &str) {
    let may_miss = env::var_os("CI").is_none() || env::var_os("WINGBEAT_TEST_EMULATED").is_some();
    assert!(may_miss, "{missing}: `cargo xtask setup` installs it");
    eprintln!("skipped: {missing}; `cargo xtask setup` installs it");
}

#[test]
fn the_same_sums_as_valgrind() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let program = build(folder.path(), "mixed", MIXED);
    let ours = heap(folder.path(), &["--exact", "--"], &[program.to_str().expect("UTF-8")]);
    let theirs = folder.path().join("theirs.json");
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--tool=dhat").arg(format!("--dhat-out-file={}", theirs.display()));
    valgrind.arg("--run-libc-freeres=no").arg(&program);
    let Ok(output) = valgrind.output() else { return skipped("valgrind is not installed") };
    fs::rename(&theirs, folder.path().join("out.json")).expect("a file");
    let theirs = finished(folder.path(), output);
    let (ours, theirs) = (ours.all(), theirs.all());
    assert_eq!(ours, theirs);
    assert!(ours.total.1 >= 20_000 && ours.at_end.1 >= 100, "{ours:?}");
}

#[test]
fn the_viewer_opens_it() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let browser = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    let browser = browser.iter().find(|path| Path::new(path).exists());
    let driver = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../server/tests/browser/node_modules/playwright-core/index.mjs");
    let viewer = VIEWERS.iter().find(|path| Path::new(path).exists());
    let (Some(browser), Some(viewer), true) = (browser, viewer, driver.exists()) else {
        return skipped("chromium, playwright-core or valgrind is not installed");
    };
    let program = build(folder.path(), "mixed", MIXED);
    let run = heap(folder.path(), &["--exact", "--"], &[program.to_str().expect("UTF-8")]);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/heap/viewer.mjs");
    let mut node = Command::new("node");
    node.arg(script).args([driver.as_path(), Path::new(viewer)]);
    node.arg(folder.path().join("out.json")).env("BROWSER", browser);
    let shown = Ran::of(&mut node).ended_with(0);
    let sums = run.all();
    let grouped = |number: u64| wingbeat_text::grouped(number);
    for (title, (bytes, blocks)) in
        [("Total:", sums.total), ("At t-gmax:", sums.at_peak), ("At t-end:", sums.at_end)]
    {
        let line = shown.stdout.lines().find(|line| line.trim_start().starts_with(title));
        let line = line.unwrap_or_else(|| panic!("{title}: {}", shown.stdout));
        assert!(line.contains(&format!(" {} bytes ", grouped(bytes))), "{bytes}: {line}");
        assert!(line.contains(&format!(" in {} blocks ", grouped(blocks))), "{blocks}: {line}");
    }
    assert!(shown.stdout.contains(": some ("), "{}", shown.stdout);
}
