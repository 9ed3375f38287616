//! Programs for tests and benchmarks, besides the toolchain: decides which are missing and how to install them. A
//! decision over facts, like [`super::plan`].
//!
//! Everything builds without them, and most tests run. So an unavailable tool is reported with the affected features,
//! and is not an error.

use super::plan::{History, Step};

/// The runner of the instruction-counting benchmarks. It requires this exact version of the library `gungraun`: a test
/// compares it with that of `examples/fun-xdp`.
pub(super) const RUNNER_VERSION: &str = "0.20.0";

/// Folders of npm packages for tests: a browser driver, and third-party schemas.
pub(super) const NPM_FOLDERS: [&str; 2] =
    ["crates/server/tests/browser", "crates/agent/tests/schemas"];

/// Folder of the Python requirements for tests.
pub(super) const PYTHON_FOLDER: &str = "xtask/python";

/// A program from the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name in `PATH`.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) purpose: &'static str,
}

/// All of them.
pub(super) const TOOLS: [Tool; 11] = [
    Tool { name: "chromium", package: "chromium", purpose: "tests of the server's pages" },
    Tool { name: "clang", package: "clang", purpose: "tests with objects made from C" },
    Tool { name: "go", package: "golang-go", purpose: "tests with programs in Go" },
    Tool { name: "google-pprof", package: "google-perftools", purpose: "tests with tcmalloc" },
    Tool { name: "ip", package: "iproute2", purpose: "tests and benchmarks with packets" },
    Tool { name: "jeprof", package: "libjemalloc-dev", purpose: "tests with jemalloc" },
    Tool { name: "npm", package: "npm", purpose: "tests of pages, and with schemas of others" },
    Tool { name: "musl-gcc", package: "musl-tools", purpose: "tests with musl" },
    // Debian leaves the server itself out of PATH; this starts it.
    Tool { name: "pg_ctlcluster", package: "postgresql", purpose: "tests with PostgreSQL" },
    Tool { name: "pip3", package: "python3-pip", purpose: "tests with clients of other makers" },
    Tool { name: "valgrind", package: "valgrind", purpose: "benchmarks that count instructions" },
];

/// State of the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) missing: Vec<Tool>,
    /// Whether our runner is built and runs.
    pub(super) runner: bool,
    /// Whether the npm packages are installed.
    pub(super) npm: bool,
    /// Whether the Python packages are installed.
    pub(super) python: bool,
    /// Whether packages can be installed: with apt-get, as root or with sudo.
    pub(super) installs: bool,
}

impl Found {
    /// Whether there is nothing to do.
    pub(super) fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.runner && self.npm && self.python
    }
}

/// The next step; none if complete, or all have been tried.
pub(super) fn next(found: &Found, history: &History) -> Option<Step> {
    let tried = |step: &Step| history.done.contains(step) || history.failed.contains(step);
    if found.installs && !found.missing.is_empty() {
        let packages = found.missing.iter().map(|tool| tool.package.to_owned()).collect();
        let install = Step::AptInstall(packages);
        if !tried(&install) {
            return Some(install);
        }
        // A failed package installation suggests stale lists.
        if history.failed.contains(&install) && !history.lists_fetched {
            return Some(Step::AptUpdate);
        }
    }
    let has = |name: &str| found.missing.iter().all(|tool| tool.name != name);
    for (is_there, program, fetch) in
        [(found.npm, "npm", Step::FetchNpm), (found.python, "pip3", Step::FetchPython)]
    {
        if !is_there && has(program) && !tried(&fetch) {
            return Some(fetch);
        }
    }
    Some(Step::BuildRunner).filter(|step| !found.runner && !tried(step))
}

/// Features affected by missing tools, one per line.
pub(super) fn losses(found: &Found) -> Vec<String> {
    let tools = found.missing.iter().map(|Tool { name, package, purpose }| {
        format!("{name}, for {purpose}; as root, run `apt-get install {package}`")
    });
    let runner = format!(
        "gungraun-runner {RUNNER_VERSION}, for benchmarks that count instructions; its build failed"
    );
    let npm = format!(
        "npm packages, for tests of the server's pages and with schemas of other makers; in {}, run \
         `npm ci --ignore-scripts --omit=peer && cp package-lock.json node_modules`",
        NPM_FOLDERS.join(" and ")
    );
    let python = format!(
        "Python packages, for tests with clients of other makers; in {PYTHON_FOLDER}, run `pip3 install --target \
         .packages -r requirements.txt && cp requirements.txt .packages`"
    );
    let parts = [
        (!found.runner).then_some(runner),
        (!found.npm).then_some(npm),
        (!found.python).then_some(python),
    ];
    tools.chain(parts.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn install(packages: &str) -> Step {
        Step::AptInstall(packages.split(' ').map(String::from).collect())
    }

    fn nothing() -> Found {
        Found { missing: TOOLS.to_vec(), runner: false, npm: true, python: true, installs: true }
    }

    #[track_caller]
    fn check(found: &Found, past: &[(Step, bool)], expected: Option<Step>) {
        let mut history = History::default();
        for (step, succeeded) in past {
            history.note(step.clone(), *succeeded);
        }
        assert_eq!(next(found, &history), expected, "{found:?} after {past:?}");
    }

    #[test]
    fn only_what_is_missing_is_installed() {
        let [.., valgrind] = TOOLS;
        check(
            &nothing(),
            &[],
            Some(install(
                "chromium clang golang-go google-perftools iproute2 libjemalloc-dev npm musl-tools postgresql python3-pip valgrind",
            )),
        );
        check(&Found { missing: vec![valgrind], ..nothing() }, &[], Some(install("valgrind")));
        check(&Found { missing: Vec::new(), ..nothing() }, &[], Some(Step::BuildRunner));
        let complete = Found { missing: Vec::new(), runner: true, ..nothing() };
        assert!(complete.is_complete());
        check(&complete, &[], None);
    }

    #[test]
    fn packages_need_npm_and_pip() {
        let [_, _, _, _, _, _, npm, _, _, pip, _] = TOOLS;
        let found = Found { runner: true, installs: false, ..nothing() };
        let without = |missing| Found { missing, npm: false, ..found.clone() };
        check(&without(Vec::new()), &[], Some(Step::FetchNpm));
        check(&without(vec![npm]), &[], None);
        check(&without(Vec::new()), &[(Step::FetchNpm, false)], None);
        let without = |missing| Found { missing, python: false, ..found.clone() };
        check(&without(Vec::new()), &[], Some(Step::FetchPython));
        check(&without(vec![pip]), &[], None);
        check(&without(Vec::new()), &[(Step::FetchPython, false)], None);
    }

    #[test]
    fn stale_lists_are_fetched_once() {
        let packages = || {
            install(
                "chromium clang golang-go google-perftools iproute2 libjemalloc-dev npm musl-tools postgresql python3-pip valgrind",
            )
        };
        let failed = (packages(), false);
        let fetched = (Step::AptUpdate, true);
        check(&nothing(), slice::from_ref(&failed), Some(Step::AptUpdate));
        check(&nothing(), &[failed.clone(), fetched.clone()], Some(packages()));
        check(&nothing(), &[failed.clone(), fetched, failed.clone()], Some(Step::BuildRunner));
        check(&nothing(), &[failed, (Step::AptUpdate, false)], Some(Step::BuildRunner));
    }

    #[test]
    fn nothing_is_tried_twice() {
        let runner_failed = (Step::BuildRunner, false);
        let without_rights = Found { installs: false, ..nothing() };
        check(&without_rights, &[], Some(Step::BuildRunner));
        check(&without_rights, slice::from_ref(&runner_failed), None);
        // The package is installed, but the program is missing.
        check(
            &nothing(),
            &[
                (
                    install(
                        "chromium clang golang-go google-perftools iproute2 libjemalloc-dev npm musl-tools postgresql python3-pip valgrind",
                    ),
                    true,
                ),
                runner_failed,
            ],
            None,
        );
    }

    #[test]
    fn losses_say_what_does_not_work() {
        let lines = losses(&Found {
            missing: vec![TOOLS[10]],
            runner: true,
            npm: true,
            installs: false,
            ..nothing()
        });
        let expected = "valgrind, for benchmarks that count instructions; as root, run \
                        `apt-get install valgrind`";
        assert_eq!(lines, [expected]);
        assert_eq!(losses(&nothing()).len(), 12);
        assert!(losses(&Found { missing: Vec::new(), ..nothing() })[0].ends_with("build failed"));
    }

    #[test]
    fn the_runner_fits_the_library() {
        let manifest = include_str!("../../../examples/fun-xdp/fun-xdp/Cargo.toml");
        assert!(manifest.contains(&format!("\ngungraun = \"={RUNNER_VERSION}\"\n")));
        let build_script = include_str!("../../../examples/fun-xdp/fun-xdp/build.rs");
        let place = format!("gungraun-runner-{RUNNER_VERSION}/bin/gungraun-runner");
        assert!(build_script.contains(&place));
    }
}
