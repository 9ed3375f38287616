//! `cargo xtask dist`: the files of a release, and a trial of them. `xtask/dist/dist.sh` does the work.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use xtask::command::{Steps, cargo, repository, without_package};

const OUT: &str = "target/dist";

/// Builds and packs a release; or checks the packages of one.
pub(crate) fn run(check: bool) -> anyhow::Result<ExitCode> {
    let out = repository().join(OUT);
    let verbs: &[&str] = if check { &["check"] } else { &["build", "pack"] };
    let mut steps = Steps::default();
    for verb in verbs {
        let mut script = script(verb, env!("CARGO_PKG_VERSION"));
        without_package(&mut script);
        steps.run(script.arg(&out).env("CARGO", cargo().get_program()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn script(verb: &str, version: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args([Path::new("xtask/dist/dist.sh"), Path::new(verb)]).current_dir(repository());
    bash.env("VERSION", version);
    bash
}

/// With a program in place of wingbeat: a release takes minutes to build.
#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, thread, time::Duration,
    };

    use xtask::{command::find_program, folders};

    use super::*;

    const VERSION: &str = "1.2.3-rc.1";
    /// Prints its name.
    const PROGRAM: &str = "#!/bin/sh\necho wingbeat \"$@\"\n";

    fn runs(verb: &str, paths: &[&Path]) {
        let output = script(verb, VERSION).args(paths).output().expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Files below a folder: modes and texts.
    fn contents(folder: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
        let files = folders::below(folder).expect("a folder").into_iter().map(|path| {
            let mode = path.metadata().expect("a file").permissions().mode() & 0o777;
            let name = path.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
            (name, (mode, fs::read(&path).expect("a file")))
        });
        files.collect()
    }

    /// Packs a release with awkward modes; a folder with only the packed files.
    fn packed() -> tempfile::TempDir {
        let out = tempfile::tempdir().expect("a temporary folder");
        let name = format!("wingbeat-{}-{}-linux", VERSION, std::env::consts::ARCH);
        let release = out.path().join(name);
        for (name, text, mode) in [
            ("wingbeat", PROGRAM, 0o711),
            ("cargo-wingbeat", PROGRAM, 0o711),
            ("README.md", "README.md", 0o600),
            ("LICENSE-MIT", "MIT\n\nAs it is.\n", 0o600),
            ("completions/wingbeat.bash", "bash", 0o644),
            ("completions/_wingbeat", "zsh", 0o600),
            ("completions/wingbeat.fish", "fish", 0o644),
            ("man/wingbeat.1", "man/wingbeat.1", 0o644),
        ] {
            let file = release.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder in it");
            fs::write(&file, text).expect("a file in it");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
        }
        runs("pack", &[out.path()]);
        fs::remove_dir_all(&release).expect("it was there");
        out
    }

    fn has_dpkg() -> bool {
        let has = ["dpkg", "dpkg-deb"].iter().all(|program| find_program(program).is_some());
        if !has {
            eprintln!("skipped: dpkg is not installed");
        }
        has
    }

    #[test]
    fn the_same_files_give_the_same_packages() {
        if !has_dpkg() {
            return;
        }
        let first = contents(packed().path());
        assert_eq!(first.len(), 3, "archive, package, checksums");
        // Archives have a resolution of seconds.
        thread::sleep(Duration::from_millis(1_100));
        assert!(first == contents(packed().path()), "they differ");
    }

    #[test]
    fn what_is_installed_is_what_was_packed() {
        if !has_dpkg() {
            return;
        }
        let out = packed();
        let sums_match = || {
            let mut sha256sum = Command::new("sha256sum");
            let status =
                sha256sum.args(["--check", "--status", "SHA256SUMS"]).current_dir(&out).status();
            status.expect("sha256sum runs").success()
        };
        assert!(sums_match());
        let files = folders::sorted(out.path()).expect("a folder");
        let of =
            |end: &str| files.iter().find(|it| it.to_string_lossy().ends_with(end)).expect(end);

        let unpacked = out.path().join("unpacked");
        fs::create_dir(&unpacked).expect("a folder");
        let mut tar = Command::new("tar");
        tar.arg("--strip-components=1").arg("-xzf").arg(of(".tar.gz")).arg("-C").arg(&unpacked);
        assert!(tar.status().expect("tar runs").success());
        let found = contents(&unpacked);
        assert_eq!(found.len(), 8);
        assert_eq!(found["README.md"], (0o644, b"README.md".to_vec()));
        assert_eq!(found["man/wingbeat.1"], (0o644, b"man/wingbeat.1".to_vec()));
        assert_eq!(found["wingbeat"], (0o755, PROGRAM.into()));

        let root = out.path().join("root");
        runs("install", &[of(".deb"), &root]);
        let output = Command::new(root.join("usr/bin/wingbeat")).arg("--version").output();
        assert_eq!(output.expect("it runs").stdout, b"wingbeat --version\n");
        let installed = contents(&root.join("usr"));
        let modes: Vec<_> =
            installed.iter().map(|(name, (mode, _))| format!("{mode:o} {name}")).collect();
        let expected = [
            "755 bin/cargo-wingbeat",
            "755 bin/wingbeat",
            "644 share/bash-completion/completions/wingbeat",
            "644 share/doc/wingbeat/changelog.gz",
            "644 share/doc/wingbeat/copyright",
            "644 share/fish/vendor_completions.d/wingbeat.fish",
            "644 share/man/man1/wingbeat.1.gz",
            "644 share/zsh/vendor-completions/_wingbeat",
        ];
        assert_eq!(modes, expected);
        assert!(
            installed["share/doc/wingbeat/copyright"]
                .1
                .ends_with(b"\nLicense: MIT\n MIT\n .\n As it is.\n")
        );
        let status = fs::read_to_string(root.join("var/lib/dpkg/status")).expect("dpkg's list");
        for part in ["Package: wingbeat\nStatus: install ok installed\n", "\nVersion: 1.2.3~rc.1\n"]
        {
            assert!(status.contains(part), "{status}");
        }
        // It depends on no package, however it is linked.
        assert!(!status.contains("\nDepends:"), "{status}");
        fs::write(of(".deb"), "another").expect("it was there");
        assert!(!sums_match());
    }
}
