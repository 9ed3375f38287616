//! `cargo xtask dist`: release artifacts: the binary, completions, man pages, licences, and installation instructions;
//! as a folder, an archive, and a Debian package.
//!
//! The binary is linked statically and works with any C library. Builds are reproducible: no times, no owners, sorted
//! names. The only local paths in the binary are those of the kernel half's sources.

mod check;
mod deb;

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, bail, ensure};

use wingbeat_steps::{
    command::{captured, cargo, find_program, output_of, repository},
    folders,
    steps::Steps,
};

/// Both programs, which must be installed next to each other.
const PROGRAMS: [&str; 2] = ["wingbeat", "cargo-wingbeat"];
const OUT: &str = "target/dist";
const SUMS: &str = "SHA256SUMS";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// 2026-01-01 in UTC, as seconds since 1970: tar warns about files from the epoch.
const TIME_S: u64 = 1_767_225_600;

const README: &str = "\
# wingbeat

Shows what eBPF and Rust code costs, down to the line, before it reaches production.

To install it, in this folder, as root:

    install -D -t /usr/local/bin wingbeat cargo-wingbeat
    install -D -m 644 -t /usr/local/share/man/man1 man/*
    install -D -m 644 completions/wingbeat.bash /usr/share/bash-completion/completions/wingbeat
    install -D -m 644 completions/_wingbeat /usr/local/share/zsh/site-functions/_wingbeat
    install -D -m 644 -t /usr/share/fish/vendor_completions.d completions/wingbeat.fish

Elvish: `eval (slurp < completions/wingbeat.elv)` in rc.elv. PowerShell: `. completions/_wingbeat.ps1`
in $PROFILE.

`wingbeat doctor` then shows what works on this machine, and how to get the rest. Nothing else is
needed: no library, no toolchain. What goes to another machine by HTTPS needs certificates that this
one trusts: the package `ca-certificates` of most distributions, or SSL_CERT_FILE.
";

/// Flags of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct DistArgs {
    /// Build nothing: check and install what lies in target/dist
    #[arg(long)]
    check: bool,
}

/// Builds the release, lays it out in a folder, and packs that; or checks existing packages.
pub(crate) fn run(args: &DistArgs) -> anyhow::Result<ExitCode> {
    let mut steps = Steps::default();
    let (out, name) = (repository().join(OUT), name());
    if args.check {
        check::run(&mut steps, &out, &name)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Reports missing dependencies before a build of minutes.
    require()?;
    let binary = build(&mut steps)?;
    folders::fresh(&out)?;
    let place = out.join(&name);
    steps.time(&format!("lay out {OUT}/{name}"), |_| lay_out(&binary, &place))?;
    let archive = out.join(format!("{name}.tar.gz"));
    steps.time(&format!("pack {name}.tar.gz"), |_| {
        pack(&place, &archive).with_context(|| format!("cannot write {}", archive.display()))
    })?;
    let package = out.join(deb::name()?);
    steps.time(&format!("pack {}", deb::name()?), |_| deb::pack(&place, &package))?;
    sums(&out, &[&archive, &package])?;
    eprintln!("The folder:  {}", place.display());
    eprintln!("The archive: {}", archive.display());
    eprintln!("  README.md in it explains how to install.");
    eprintln!("The package: {}", package.display());
    eprintln!("Checksums:   {}", out.join(SUMS).display());
    Ok(ExitCode::SUCCESS)
}

/// Of the folder and the archive.
fn name() -> String {
    format!("wingbeat-{VERSION}-{}-linux", env::consts::ARCH)
}

/// The target of a static build with this compiler's C library.
fn target() -> String {
    let c_library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-linux-{c_library}", env::consts::ARCH)
}

/// Fails with the missing dependencies.
fn require() -> anyhow::Result<()> {
    for (program, package) in
        [("dpkg-deb", "dpkg"), ("gzip", "gzip"), ("sha256sum", "coreutils"), ("tar", "tar")]
    {
        ensure!(
            find_program(program).is_some(),
            "`{program}` is not installed: install the package `{package}`, then try again"
        );
    }
    if cfg!(target_env = "gnu") {
        // Prints the bare name if not found.
        let found = output_of(Command::new("cc").arg("-print-file-name=libc.a"));
        ensure!(
            found.is_some_and(|path| Path::new(path.trim()).is_absolute()),
            "the C library is not there as libc.a, for a program that needs none: install libc6-dev, or \
             glibc-static where the distribution has it apart"
        );
    }
    Ok(())
}

/// Builds the static binary; returns its path.
fn build(steps: &mut Steps) -> anyhow::Result<PathBuf> {
    let root = repository();
    let home = env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        PathBuf::from,
    );
    let flags = [
        "-Ctarget-feature=+crt-static".to_owned(),
        // Otherwise the crate getrandom looks up the function in shared libraries, finds none, and needs /dev/urandom,
        // which an empty root does not have.
        "--cfg=getrandom_backend=\"linux_getrandom\"".to_owned(),
        format!("--remap-path-prefix={}=/wingbeat-{VERSION}", root.display()),
        format!("--remap-path-prefix={}=/cargo", home.display()),
    ];
    let flags = serde_json::to_string(&flags).context("cannot write the flags")?;
    let target = target();
    let mut cargo = cargo();
    // Added to the flags of .cargo/config.toml. With a target, they do not apply to build scripts and macros, which
    // cannot be static.
    cargo.args(["build", "--release", "--locked", "-p", "wingbeat", "--target", &target]);
    cargo.args(["--config", &format!("build.rustflags={flags}")]);
    // They would replace all flags.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    steps.run(&mut cargo)?;
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(root.join(folder).join(target).join("release/wingbeat"))
}

/// Fills the folder of a release.
fn lay_out(binary: &Path, place: &Path) -> anyhow::Result<()> {
    let root = repository();
    folders::fresh(place)?;
    captured(Command::new(binary).arg("generate").arg(place))?;
    // Used by docs/ only.
    fs::remove_dir_all(place.join("flags")).context("cannot remove the tables of flags")?;
    for program in PROGRAMS {
        copy(&binary.with_file_name(program), &place.join(program))?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(licence), &place.join(licence))?;
    }
    fs::write(place.join("README.md"), README).context("cannot write README.md")
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Packs a folder under its name.
fn pack(folder: &Path, archive: &Path) -> anyhow::Result<()> {
    let name = folder.file_name().context("a folder without a name")?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", &format!("--mtime=@{TIME_S}")]);
    // No name and time in the header.
    tar.arg("--use-compress-program=gzip --no-name --best").arg("--file").arg(archive);
    tar.arg("--directory").arg(folder.parent().unwrap_or(folder)).arg(name);
    let status = tar.status().context("cannot run tar")?;
    ensure!(status.success(), "tar failed ({status})");
    Ok(())
}

/// Writes the checksums of files in a folder next to them, for `sha256sum --check`.
fn sums(folder: &Path, files: &[&Path]) -> anyhow::Result<()> {
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.current_dir(folder).args(files.iter().filter_map(|file| file.file_name()));
    let sums = captured_in_place(&mut sha256sum)?;
    fs::write(folder.join(SUMS), sums).with_context(|| format!("cannot write {SUMS}"))
}

/// Output of a command in its preset folder.
fn captured_in_place(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// Names of the files with a suffix in a folder.
fn names(folder: &Path, suffix: &str) -> anyhow::Result<Vec<PathBuf>> {
    let ends = |path: &Path| path.extension() == Some(OsStr::new(suffix));
    Ok(folders::sorted(folder)?.into_iter().filter(|path| ends(path)).collect())
}

#[cfg(test)]
mod tests;
