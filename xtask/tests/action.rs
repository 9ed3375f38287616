//! The GitHub action of `action.yml`: runs its scripts like a runner, with releases in a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A `wingbeat` that prints its arguments, each in brackets.
const PROGRAM: &str = "#!/bin/sh\nprintf '[%s]' \"$@\"\n";

/// A repository's published releases, and a runner's folder for files.
struct Runner {
    place: tempfile::TempDir,
}

impl Runner {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(place.path().join("temp")).expect("a folder in it");
        Self { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Publishes a version for this machine, which becomes the latest.
    fn publish(&self, version: &str) {
        self.publish_for(version, std::env::consts::ARCH);
    }

    fn publish_for(&self, version: &str, arch: &str) {
        let releases = self.path("releases");
        let (folder, latest) =
            (releases.join(format!("download/v{version}")), releases.join("latest/download"));
        let name = format!("wingbeat-{version}-{arch}-linux");
        let script = "set -eu; mkdir -p \"$1/$2\" \"$3\"; printf %s \"$4\" >\"$1/$2/wingbeat\"
            chmod +x \"$1/$2/wingbeat\"; cd \"$1\"; tar -czf \"$2.tar.gz\" \"$2\"; rm -r \"$2\"
            echo package >wingbeat.deb; sha256sum \"$2.tar.gz\" wingbeat.deb >SHA256SUMS
            cp SHA256SUMS \"$3\"";
        let mut sh = Command::new("sh");
        sh.args(["-c", script, "sh"]).args([&folder, Path::new(&name), &latest]).arg(PROGRAM);
        assert!(sh.status().expect("sh runs").success());
    }

    /// Runs a script of the action with these variables.
    fn script(&self, name: &str, variables: &[(&str, &str)]) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let mut bash = Command::new("bash");
        bash.arg(root.join(".github/action").join(name)).current_dir(self.place.path());
        bash.env("RUNNER_TEMP", self.path("temp"));
        bash.env("GITHUB_PATH", self.path("path")).env("GITHUB_OUTPUT", self.path("output"));
        bash.envs(variables.iter().copied()).stdin(Stdio::null());
        bash.output().expect("bash runs")
    }

    /// Installs with these variables; returns the result, or the error message.
    fn install(&self, variables: &[(&str, &str)]) -> Result<String, String> {
        for file in ["path", "output"] {
            fs::write(self.path(file), "").expect("a file in it");
        }
        let url = format!("file://{}", self.path("releases").display());
        let output = self.script("install", &[&[("RELEASES", url.as_str())], variables].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let read = |file| fs::read_to_string(self.path(file)).expect("a file in it");
        if output.status.success() {
            return Ok(read("output"));
        }
        assert_eq!((read("path"), read("output")), (String::new(), String::new()));
        Err(said)
    }

    #[track_caller]
    fn installs(&self, variables: &[(&str, &str)], version: &str) {
        let expected = Ok(format!("version={version}\n"));
        assert_eq!(self.install(variables), expected, "{variables:?}");
        let path = fs::read_to_string(self.path("path")).expect("a path");
        let mut wingbeat = Command::new(Path::new(path.trim()).join("wingbeat"));
        assert!(wingbeat.output().expect("it is there").status.success());
    }

    #[track_caller]
    fn refuses(&self, variables: &[(&str, &str)], part: &str) {
        let said = self.install(variables).expect_err("it is refused");
        assert!(said.starts_with("::error title=wingbeat::") && said.contains(part), "{said}");
    }
}

/// A machine without curl cannot run the action either.
fn has_curl() -> bool {
    let has = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has {
        eprintln!("skipped: curl is not installed");
    }
    has
}

#[test]
fn the_version_is_the_one_asked_for() {
    if !has_curl() {
        return;
    }
    let runner = Runner::new();
    runner.publish("0.1.0");
    runner.publish("0.2.0-rc.1");
    runner.installs(&[], "0.2.0-rc.1");
    runner.installs(&[("VERSION", "latest")], "0.2.0-rc.1");
    runner.installs(&[("VERSION", "0.1.0")], "0.1.0");
    runner.installs(&[("VERSION", "v0.1.0")], "0.1.0");
    // A tag of the action, then a lookalike.
    runner.installs(&[("ACTION_REF", "v0.1.0")], "0.1.0");
    runner.installs(&[("ACTION_REF", "v0")], "0.2.0-rc.1");
    runner.installs(&[("ACTION_REF", "main")], "0.2.0-rc.1");
    runner.installs(&[("ACTION_REF", "v0.1.0"), ("VERSION", "latest")], "0.2.0-rc.1");
    runner.refuses(&[("VERSION", "0.3.0")], "is there a release 0.3.0?");
    runner.refuses(&[("VERSION", "../../x")], "the input version is not one");
}

#[test]
fn another_archive_than_the_published_one_is_refused() {
    if !has_curl() {
        return;
    }
    let runner = Runner::new();
    runner.publish("0.1.0");
    let folder = runner.path("releases/download/v0.1.0");
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).expect("checksums");
    let (digest, _) = sums.split_once(' ').expect("a checksum");
    runner.installs(&[("SHA256", digest)], "0.1.0");
    runner.refuses(&[("SHA256", &"0".repeat(64))], "the input sha256 is another");

    let name = format!("wingbeat-0.1.0-{}-linux.tar.gz", std::env::consts::ARCH);
    fs::remove_dir_all(runner.path("temp")).expect("it was there");
    fs::create_dir(runner.path("temp")).expect("a folder");
    let mut bytes = fs::read(folder.join(&name)).expect("an archive");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(folder.join(&name), bytes).expect("another archive");
    runner.refuses(&[], "nothing was installed");
    assert_eq!(fs::read_dir(runner.path("temp")).expect("a folder").count(), 0);

    fs::remove_file(folder.join(&name)).expect("it was there");
    runner.refuses(&[], "cannot read wingbeat-0.1.0");
}

#[test]
fn a_release_for_other_machines_is_refused() {
    if !has_curl() {
        return;
    }
    let runner = Runner::new();
    runner.publish_for("0.1.0", "riscv64");
    runner.refuses(&[], &format!("has no archive for {}", std::env::consts::ARCH));
}

#[test]
fn inputs_become_words_and_nothing_is_run() {
    let runner = Runner::new();
    let folder = runner.path("bin");
    fs::create_dir(&folder).expect("a folder");
    let program = folder.join("wingbeat");
    fs::write(&program, PROGRAM).expect("a program");
    assert!(Command::new("chmod").arg("+x").arg(&program).status().expect("it runs").success());
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let check = |arguments: &str, command: &str, token: &str, expected: &str| {
        let variables =
            [("PATH", &path[..]), ("ARGUMENTS", arguments), ("COMMAND", command), ("TOKEN", token)];
        let output = runner.script("run", &variables);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    };
    check("", "cargo bench", "", "[run][--][cargo bench]");
    check(" \n", "a\nb", "", "[run][--][a\nb]");
    check("--err\n--branch 'a b'", "c", "", "[run][--err][--branch][a b][--][c]");
    check("--err", "c", "t", "[run][--err][--github-actions][t][--][c]");
    check("$(touch x) `touch x` *", "$(x)", "", "[run][$(touch][x)][`touch][x`][*][--][$(x)]");
    assert!(!runner.path("x").exists());
    let output = runner.script("run", &[("ARGUMENTS", "'a"), ("COMMAND", "c")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("is a quote missing?"), "{said}");
}

#[test]
fn no_expression_stands_in_a_script() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    for file in ["action.yml", ".github/workflows/release.yml"] {
        let text = fs::read_to_string(root.join(file)).expect("readable text");
        // Expressions may only be values of upper-case keys, which are variables, and of a few others.
        for line in text.lines().filter(|line| line.contains("${{")) {
            let (key, _) = line.trim().split_once(": ").expect("a key");
            let is_variable =
                key.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c));
            let others = ["value", "working-directory", "key", "restore-keys"];
            assert!(is_variable || others.contains(&key), "{file}: {line}");
        }
    }
    // Every variable that a script reads is set.
    let action = fs::read_to_string(root.join("action.yml")).expect("readable text");
    let names = ["VERSION", "SHA256", "RELEASES", "ACTION_REF", "REPOSITORY_URL"];
    for name in names.iter().chain(&["ARGUMENTS", "COMMAND", "TOKEN"]) {
        assert!(action.contains(&format!("        {name}: ${{{{")), "{name} is not set");
    }
}
