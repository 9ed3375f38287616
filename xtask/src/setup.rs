//! `cargo xtask setup`: installs what builds of kernel halves, tests and benchmarks need.
//!
//! The toolchain of kernel halves is a Rust with the sources of `core`, and bpf-linker built for its LLVM. As long as
//! the recorded one works, no other is searched for; otherwise [`choose`] gets one. Everything else is optional: a
//! program that is not available is reported with the tests that need it.

use std::{
    collections::BTreeMap,
    env, fmt,
    fs::{self, File},
    iter,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use wingbeat_bpf_build::{LLVM_MAJORS, Toolchain, llvm_major};
use xtask::{
    command::{Rights, cargo, find_program, output_of, repository, run_logged},
    folders,
};

/// Oldest Rust that builds the kernel halves, like all of wingbeat: "1.95".
const RUST_OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");
const LINKER_VERSION: &str = "0.13.0";
/// The runner of the instruction-counting benchmarks, which requires this exact version of the library `gungraun`.
const RUNNER_VERSION: &str = "0.20.0";

/// Packages of a complete Rust. Debian's stable releases keep an old `rustc` and add a recent one for browsers.
const RUSTS: [[&str; 3]; 2] =
    [["rustc-web", "cargo-web", "rust-web-src"], ["rustc", "cargo", "rust-src"]];

/// Nightlies known to build the kernel halves, with their LLVM. None has LLVM 21: those are older than [`RUST_OLDEST`].
const NIGHTLIES: [(&str, u32); 2] = [("nightly-2026-05-19", 22), ("nightly-2026-10-01", 23)];

/// A program from the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name in `PATH`.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) purpose: &'static str,
}

const TOOLS: [Tool; 11] = [
    Tool { name: "chromium", package: "chromium", purpose: "tests of the server's pages" },
    Tool { name: "clang", package: "clang", purpose: "tests with objects made from C" },
    Tool { name: "go", package: "golang-go", purpose: "tests with programs in Go" },
    Tool { name: "google-pprof", package: "google-perftools", purpose: "tests with tcmalloc" },
    Tool { name: "ip", package: "iproute2", purpose: "tests and benchmarks with packets" },
    Tool { name: "jeprof", package: "libjemalloc-dev", purpose: "tests with jemalloc" },
    Tool { name: "npm", package: "npm", purpose: "tests of pages and with third-party schemas" },
    Tool { name: "musl-gcc", package: "musl-tools", purpose: "tests with musl" },
    // Debian leaves the server itself out of PATH; this starts it.
    Tool { name: "pg_ctlcluster", package: "postgresql", purpose: "tests with PostgreSQL" },
    Tool { name: "pip3", package: "python3-pip", purpose: "tests with third-party clients" },
    Tool { name: "valgrind", package: "valgrind", purpose: "benchmarks that count instructions" },
];

/// Test dependencies from npm and PyPI: program, folder, list, the list's copy that records what is installed, and
/// command. npm runs no install scripts, so that none downloads a browser.
const FETCHED: [[&str; 5]; 3] = {
    const NPM: &str = "npm ci --ignore-scripts --omit=peer --no-audit --no-fund && cp package-lock.json node_modules";
    const PIP: &str = "pip3 install --disable-pip-version-check --no-input --upgrade --only-binary :all: \
                       --target .packages -r requirements.txt && cp requirements.txt .packages";
    const LOCK: [&str; 2] = ["package-lock.json", "node_modules/package-lock.json"];
    [
        ["npm", "crates/server/tests/browser", LOCK[0], LOCK[1], NPM],
        ["npm", "crates/agent/tests/schemas", LOCK[0], LOCK[1], NPM],
        ["pip3", "xtask/python", "requirements.txt", ".packages/requirements.txt", PIP],
    ]
};

/// A rustc with the sources of `core`, and its cargo.
#[derive(Debug)]
struct Compiler {
    cargo: PathBuf,
    rustc: PathBuf,
    /// "1.96.0"
    release: String,
    llvm: u32,
}

/// This machine, while it is being changed.
struct Here {
    log: PathBuf,
    /// One setup at a time: clones share the cache.
    _lock: File,
}

impl Here {
    fn begin() -> anyhow::Result<Self> {
        let cache = Toolchain::cache_dir();
        let open =
            || fs::create_dir_all(&cache).and_then(|()| File::create(cache.join("setup.lock")));
        let lock = open().with_context(|| {
            let cache = cache.display();
            format!("cannot write in {cache}; set XDG_CACHE_HOME to a folder that you may write to")
        })?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            say("waiting", "for another `cargo xtask setup`");
            flock(&lock, FlockOperation::LockExclusive).context("cannot lock the cache")?;
        }
        Ok(Self { log: cache.join("setup.log"), _lock: lock })
    }

    /// Runs a command that installs something; prints that and the outcome.
    fn run(&self, what: impl fmt::Display, command: &mut Command) -> anyhow::Result<()> {
        say("installing", what);
        let start = Instant::now();
        let outcome = run_logged(command, &self.log);
        match &outcome {
            Ok(()) => say("installed", format_args!("in {:.1} s", start.elapsed().as_secs_f64())),
            Err(error) => say("failed", format_args!("{error:#}")),
        }
        outcome
    }

    fn apt_get(&self, what: &str, arguments: &[&str]) -> anyhow::Result<()> {
        ensure!(find_program("apt-get").is_some(), "there is no apt-get to get {what}");
        let rights = Rights::now();
        ensure!(rights != Rights::None, "as root, run `apt-get install {what}`, then this again");
        let mut command = rights.command("env".as_ref());
        command.args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "apt-get"]);
        self.run(format_args!("{what} (apt-get {})", arguments[0]), command.args(arguments))
    }

    fn package_lists(&self) -> anyhow::Result<()> {
        self.apt_get("package lists", &["update"])
    }

    fn packages(&self, names: &[String]) -> anyhow::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        // Never removes another package, such as Debian's own rustc, without being asked. Fresh cloud machines hold the
        // lock while they upgrade.
        let options = ["install", "-y", "--no-install-recommends", "--no-remove"];
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let words = [&options[..], &["-oDPkg::Lock::Timeout=300"], &names].concat();
        let install = || self.apt_get(&names.join(" "), &words);
        // A failure suggests stale lists.
        install().or_else(|error| self.package_lists().map_err(|_| error).and_then(|()| install()))
    }

    /// Installs the first of [`RUSTS`] that apt offers in a version that is new enough. Such a compiler and LLVM's
    /// package have the same source, and fit each other.
    fn packaged_rust(&self) -> anyhow::Result<Compiler> {
        let apt =
            |words: &[&str]| output_of(Command::new("apt-cache").env("LC_ALL", "C").args(words));
        let is_suitable = |names: &[&str; 3]| {
            let policy = apt(&["policy", names[0]]).unwrap_or_default();
            let depends = || apt(&["depends", "--recurse", "--important", names[0]]);
            candidate(&policy).is_some_and(is_new_enough)
                && depends().and_then(|it| llvm_in(&it)).is_some_and(|it| LLVM_MAJORS.contains(&it))
        };
        let find = || RUSTS.into_iter().find(is_suitable);
        let names = find().or_else(|| self.package_lists().ok().and_then(|()| find()));
        let names = names.context("apt offers none that is recent enough")?;
        self.packages(&names.map(String::from))?;
        let installed = compilers().into_iter().find(|it| it.rustc.starts_with("/usr"));
        installed.context("what was installed for it does not run")
    }

    fn nightly(&self, name: &str) -> anyhow::Result<Compiler> {
        let mut rustup = Command::new("rustup");
        rustup.args(["toolchain", "install", name, "--profile", "minimal"]);
        rustup.args(["--component", "rust-src", "--no-self-update"]);
        self.run(format_args!("Rust {name} with the sources of core"), &mut rustup)?;
        let found = compilers().into_iter().find(|it| it.rustc.to_string_lossy().contains(name));
        found.context("what was installed for it does not run")
    }

    /// Installs bpf-linker for the LLVM of a compiler, if it is missing.
    fn link(&self, compiler: Compiler) -> anyhow::Result<Compiler> {
        let (llvm, linker) = (compiler.llvm, linker(compiler.llvm));
        if runs(&linker) {
            return Ok(compiler);
        }
        let llvm_dev = (!llvm_prefixes().contains_key(&llvm)).then(|| format!("llvm-{llvm}-dev"));
        let cxx = find_program("g++").is_none().then(|| "g++".to_owned());
        self.packages(&llvm_dev.into_iter().chain(cxx).collect::<Vec<_>>())?;
        let prefix = llvm_prefixes().remove(&llvm);
        let prefix = prefix.with_context(|| format!("llvm-{llvm}-dev has no llvm-config"))?;
        let mut install = cargo_install(LINKER_VERSION, &linker);
        install.args(["--no-default-features", "--features", &format!("llvm-{llvm}")]);
        let what = format!("bpf-linker {LINKER_VERSION}, built in a minute or two");
        self.run(what, install.env("LLVM_PREFIX", prefix))?;
        ensure!(runs(&linker), "{} does not run", linker.display());
        Ok(compiler)
    }

    /// Installs what is missing of these; a failure is only printed.
    fn tools(&self, needed: &[Tool]) {
        // Looks again: another setup may have held the lock until now.
        let packages: Vec<_> = missing(needed).iter().map(|it| it.package.to_owned()).collect();
        let _ = self.packages(&packages);
    }
}

/// Builds a program of crates.io at `path`, which ends with `bin` and its name.
fn cargo_install(version: &str, path: &Path) -> Command {
    let mut install = cargo();
    install.arg("install").args(path.file_name()).args(["--version", version, "--locked"]);
    install.args(["--force", "--root"]).args(path.ancestors().nth(2));
    // Outside the scope of this repository's flags.
    install.current_dir(Toolchain::cache_dir());
    install
}

/// The version that would be installed, from the output of `apt-cache policy`.
fn candidate(policy: &str) -> Option<&str> {
    policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))
}

/// The first `libllvmN` among dependencies.
fn llvm_in(depends: &str) -> Option<u32> {
    depends.lines().find_map(|line| {
        let package = line.split_whitespace().last()?;
        package.strip_prefix("libllvm")?.split(':').next()?.parse().ok()
    })
}

/// Whether a version such as "1.96.0+dfsg1" or "1.97.0-nightly" is recent enough.
fn is_new_enough(version: &str) -> bool {
    let minor = |version: &str| -> Option<u32> {
        version.strip_prefix("1.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    minor(version).zip(minor(RUST_OLDEST)).is_some_and(|(found, oldest)| found >= oldest)
}

/// The distribution's, the pinned nightlies, then rustup's others, which may change and then need a new linker.
fn compilers() -> Vec<Compiler> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".rustup"));
    let rustup = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(home);
    let toolchains = rustup.and_then(|it| folders::sorted(&it.join("toolchains")).ok());
    let mut toolchains = toolchains.unwrap_or_default();
    toolchains.sort_by_key(|path| {
        !NIGHTLIES.iter().any(|(name, _)| path.to_string_lossy().contains(&format!("/{name}")))
    });
    let folders = [PathBuf::from("/usr")].into_iter().chain(toolchains);
    let compilers = folders.filter_map(|it| inspect(&it.join("bin/cargo"), &it.join("bin/rustc")));
    compilers.filter(|it| is_new_enough(&it.release) && LLVM_MAJORS.contains(&it.llvm)).collect()
}

/// A compiler with the sources of `core`, if it runs.
fn inspect(cargo: &Path, rustc: &Path) -> Option<Compiler> {
    let sysroot = rustc.parent()?.parent()?;
    // Checked first: it is cheap, and /usr/bin/rustc may be rustup's proxy with arbitrary effects.
    let core = sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    if !cargo.is_file() || !core.is_file() {
        return None;
    }
    let version = output_of(Command::new(rustc).arg("--version"))?;
    let release = version.split_whitespace().nth(1)?.into();
    Some(Compiler { cargo: cargo.into(), rustc: rustc.into(), release, llvm: llvm_major(rustc)? })
}

/// LLVMs with a library to link. The user's choice wins over Debian's.
fn llvm_prefixes() -> BTreeMap<u32, PathBuf> {
    let debian = LLVM_MAJORS.map(|major| PathBuf::from(format!("/usr/lib/llvm-{major}")));
    let set = env::var_os("LLVM_PREFIX").map(PathBuf::from);
    let major = |prefix: &Path| -> Option<u32> {
        let version = output_of(Command::new(prefix.join("bin/llvm-config")).arg("--version"))?;
        let has_library = |lib: &str| prefix.join(lib).join("libLLVM.so").exists();
        (has_library("lib") || has_library("lib64")).then_some(())?;
        version.split('.').next()?.parse().ok()
    };
    let prefixes = debian.into_iter().chain(set);
    prefixes.filter_map(|prefix| Some((major(&prefix)?, prefix))).collect()
}

/// Whether a program starts: a bpf-linker whose libLLVM was removed does not.
fn runs(program: &Path) -> bool {
    output_of(Command::new(program).arg("--version")).is_some()
}

/// Path of our bpf-linker for an LLVM, separate from one installed by the user.
fn linker(llvm: u32) -> PathBuf {
    let folder = format!("bpf-linker-{LINKER_VERSION}-llvm{llvm}");
    Toolchain::cache_dir().join(folder).join("bin/bpf-linker")
}

/// Path of our gungraun-runner.
pub(crate) fn runner() -> PathBuf {
    let folder = format!("gungraun-runner-{RUNNER_VERSION}");
    Toolchain::cache_dir().join(folder).join("bin/gungraun-runner")
}

/// Prints one line with an action and its object to stderr.
fn say(verb: &str, what: impl fmt::Display) {
    eprintln!("{verb:<11} {what}");
}

fn say_found(Compiler { cargo, rustc, release, llvm }: &Compiler) {
    let linker = linker(*llvm);
    let [cargo, rustc, linker] = [cargo, rustc, &linker].map(|path| path.display());
    say("found", format_args!("rustc {release} (LLVM {llvm}, sources of core): {rustc}"));
    say("found", format_args!("cargo: {cargo}"));
    say("found", format_args!("bpf-linker {LINKER_VERSION} for LLVM {llvm}: {linker}"));
}

/// Installs missing parts of the toolchain and records it.
pub(crate) fn toolchain() -> anyhow::Result<()> {
    if let Ok(Toolchain { cargo, rustc, linker: recorded }) = Toolchain::recorded()
        && let Some(compiler) = inspect(&cargo, &rustc)
        && recorded == linker(compiler.llvm)
        && runs(&recorded)
        && runs(&cargo)
    {
        say_found(&compiler);
        return Ok(());
    }
    let here = Here::begin()?;
    let compiler = choose(&here)?;
    say_found(&compiler);
    let linker = linker(compiler.llvm);
    Toolchain { cargo: compiler.cargo, rustc: compiler.rustc, linker }
        .record()
        .with_context(|| format!("cannot write {}", Toolchain::record_path().display()))
}

/// Gets a compiler with its linker: an installed one, the distribution's packages, or a pinned nightly from rustup,
/// whose LLVM still has to come from the distribution or `LLVM_PREFIX`.
fn choose(here: &Here) -> anyhow::Result<Compiler> {
    let mut installed = compilers();
    // Offline, only those are possible that have a linker.
    installed.sort_by_key(|it| !runs(&linker(it.llvm)));
    let installed =
        installed.into_iter().map(|it| (format!("the Rust at {}", it.rustc.display()), Ok(it)));
    let packaged = iter::once_with(|| ("the distribution's Rust".to_owned(), here.packaged_rust()));
    let nightlies =
        NIGHTLIES.iter().map(|(name, _)| (format!("rustup with {name}"), here.nightly(name)));
    let mut reasons = String::new();
    for (name, compiler) in installed.chain(packaged).chain(nightlies) {
        match compiler.and_then(|it| here.link(it)) {
            Ok(compiler) => return Ok(compiler),
            Err(error) => reasons += &format!("  {name}: {error:#}\n"),
        }
    }
    let (nightly, llvm) = NIGHTLIES[0];
    bail!(
        "cannot get an eBPF toolchain on this machine\n{reasons}\
         Correct what a failed command complains of (all output is in {}), or install by other means\n  \
         a Rust: `rustup toolchain install {nightly} --profile minimal --component rust-src`,\n  \
         LLVM {llvm} with development files (LLVM_PREFIX: the folder above bin/llvm-config) and the C++ library;\n\
         then run `cargo xtask setup` again",
        here.log.display()
    )
}

fn missing(needed: &[Tool]) -> Vec<Tool> {
    needed.iter().copied().filter(|tool| find_program(tool.name).is_none()).collect()
}

fn loss(Tool { name, package, purpose }: &Tool) -> String {
    format!("{name}, for {purpose}; as root, run `apt-get install {package}`")
}

/// Installs missing programs of a single task; an error if one is unavailable.
pub(crate) fn programs(needed: &[Tool]) -> anyhow::Result<()> {
    if !missing(needed).is_empty() {
        Here::begin()?.tools(needed);
    }
    let losses: Vec<_> = missing(needed).iter().map(loss).collect();
    ensure!(losses.is_empty(), "missing: {}", losses.join("\nmissing: "));
    Ok(())
}

/// Updates the package lists; a failure is only printed.
pub(crate) fn package_lists() -> anyhow::Result<()> {
    let _ = Here::begin()?.package_lists();
    Ok(())
}

/// Installs everything missing; prints what it finds or installs.
pub(crate) fn run() -> anyhow::Result<()> {
    toolchain()?;
    let stale = || {
        FETCHED.into_iter().filter(|[_, folder, list, installed, _]| {
            let read = |file: &str| fs::read(repository().join(folder).join(file)).ok();
            read(list).is_none() || read(list) != read(installed)
        })
    };
    let runner = runner();
    if !missing(&TOOLS).is_empty() || stale().next().is_some() || !runs(&runner) {
        let here = Here::begin()?;
        here.tools(&TOOLS);
        // Failures are printed, and the losses below.
        for [program, folder, .., script] in stale() {
            let mut sh = Command::new("sh");
            sh.args(["-c", script]).current_dir(repository().join(folder));
            let _ = find_program(program)
                .map(|_| here.run(format_args!("packages of {folder}"), &mut sh));
        }
        if !runs(&runner) {
            let mut install = cargo_install(RUNNER_VERSION, &runner);
            // It parses Valgrind's output and mostly waits: halving the build time matters more than speed.
            install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
            let _ = here.run("gungraun-runner, built in a minute or two", &mut install);
        }
    }
    for tool in TOOLS {
        match find_program(tool.name) {
            Some(path) => say("found", format_args!("{}: {}", tool.name, path.display())),
            None => say("missing", loss(&tool)),
        }
    }
    for [_, folder, .., script] in stale() {
        say("missing", format_args!("packages for tests; in {folder}, run `{script}`"));
    }
    let (word, path) = (if runs(&runner) { "found" } else { "missing" }, runner.display());
    say(word, format_args!("gungraun-runner {RUNNER_VERSION}, to count instructions: {path}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_minor() {
        let check = |version, expected| assert_eq!(is_new_enough(version), expected, "{version}");
        check("1.95.0", true);
        check("1.101.0-nightly", true);
        check("1.94.1", false);
        check("1.63.0+dfsg1-2", false);
        check("2:1.96", false);
        check("(none)", false);
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
        check(candidate(policy).expect("a version"), true);
    }

    #[test]
    fn llvm_is_found_among_dependencies() {
        let check = |text, expected| assert_eq!(llvm_in(text), expected, "{text:?}");
        check("rustc-web\n  Depends: libc6\n  Depends: libllvm22\nlibllvm22\n", Some(22));
        check("  Depends: libllvm19:amd64\n", Some(19));
        check("rustc\n  Depends: libllvm-spirv\n  Depends: gcc\n", None);
    }

    #[test]
    fn the_runner_fits_the_library() {
        let manifest = include_str!("../../examples/fun-xdp/fun-xdp/Cargo.toml");
        assert!(manifest.contains(&format!("\ngungraun = \"={RUNNER_VERSION}\"\n")));
        let build_script = include_str!("../../examples/fun-xdp/fun-xdp/build.rs");
        let path = format!("gungraun-runner-{RUNNER_VERSION}/bin/gungraun-runner");
        assert!(build_script.contains(&path));
    }
}
