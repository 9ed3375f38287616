//! Compiling one kernel half from a build script.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio, exit},
};

use crate::{Toolchain, compiled};

/// A crate of eBPF programs.
#[derive(Debug, Clone, Copy)]
pub struct KernelHalf<'a> {
    /// Folder of the crate, relative to the crate whose build script calls.
    pub dir: &'a str,
    pub binary: &'a str,
    pub features: &'a [&'a str],
    /// Further folders whose change means a rebuild (crates shared by both halves).
    pub shared: &'a [&'a str],
    /// Folder with the half's compiled objects, relative like `dir`: see `compiled`.
    pub compiled: Option<&'a str>,
}

impl KernelHalf<'_> {
    /// Files and folders that it is compiled from, relative like `dir`; not all of them have to be there.
    pub(crate) fn sources(&self) -> impl Iterator<Item = PathBuf> {
        self.shared.iter().chain([&self.dir]).flat_map(|dir| {
            ["src", "build.rs", "Cargo.toml", "Cargo.lock"].map(|part| Path::new(dir).join(part))
        })
    }
}

/// Leaves the object file of a kernel half as `$OUT_DIR/<binary>`: the one that lies compiled beside its sources if
/// these have not changed since, else a new one.
///
/// For build scripts: tells cargo what to watch, passes the compiler's warnings on, and ends the
/// build with one sentence when it cannot go on.
pub fn build_or_exit(half: KernelHalf<'_>) {
    for path in half.sources().chain(half.compiled.map(PathBuf::from)).filter(|path| path.exists())
    {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let out = || env::var_os("OUT_DIR").map(|dir| Path::new(&dir).join(half.binary));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if let (Some(object), Some(out)) = (compiled::object(half, &arch), out()) {
        if let Err(error) = fs::copy(&object, out) {
            println!("cargo::error=cannot copy {}: {error}", object.display());
        }
        return;
    }
    if !Path::new(half.dir).is_dir() {
        packaged_without(half);
        return;
    }
    println!("cargo::rerun-if-changed={}", Toolchain::record_path().display());
    let toolchain = match Toolchain::recorded() {
        Ok(toolchain) => toolchain,
        Err(missing) => {
            println!("cargo::error={missing}: run `cargo xtask setup`, then build again");
            // The line above fails the build by itself. A bad exit status would bury it under all
            // that this program said to cargo.
            exit(0);
        }
    };
    match build_out(half, &toolchain) {
        Ok(warnings) => {
            for warning in warnings {
                println!("cargo::warning={}: {warning}", half.dir);
            }
        }
        Err(message) => {
            println!("cargo::error={message}");
            exit(1);
        }
    }
}

/// The package of an example: what is published has its kernel half with it, or no use for one.
fn packaged_without(half: KernelHalf<'_>) {
    println!("cargo::warning={} is not in this package: its programs cannot be loaded", half.dir);
    let empty = env::var_os("OUT_DIR").map(|dir| fs::write(Path::new(&dir).join(half.binary), ""));
    if let Some(Err(error)) = empty {
        println!("cargo::error=cannot write to OUT_DIR: {error}");
    }
}

/// The compiler's warnings, or what went wrong.
fn build_out(half: KernelHalf<'_>, toolchain: &Toolchain) -> Result<Vec<String>, String> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| env::consts::ARCH.to_owned());
    let Built { object, warnings } =
        build(half, toolchain, &shared_target_dir(&out_dir), Purpose::Here { arch: &arch })?;
    fs::copy(&object, out_dir.join(half.binary))
        .map_err(|error| format!("cannot copy {}: {error}", object.display()))?;
    Ok(warnings)
}

/// An object file that was built.
#[derive(Debug, Clone)]
pub struct Built {
    pub object: PathBuf,
    pub warnings: Vec<String>,
}

/// What an object is for, with the machine whose registers its programs read.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// This machine's own build.
    Here { arch: &'a str },
    /// For others: the same bits whatever folder the sources are in.
    Everywhere { arch: &'a str },
}

/// Builds the kernel half below a target folder; or else says what went wrong.
pub fn build(
    half: KernelHalf<'_>,
    toolchain: &Toolchain,
    target_dir: &Path,
    purpose: Purpose<'_>,
) -> Result<Built, String> {
    let mut command = command(toolchain, half, target_dir);
    // Not the host's registers, where the user half is built for another machine.
    let (Purpose::Here { arch } | Purpose::Everywhere { arch }) = purpose;
    command.env("AYA_BPF_TARGET_ARCH", arch);
    if matches!(purpose, Purpose::Everywhere { .. }) {
        let wrapper =
            wrapper(target_dir).map_err(|error| format!("cannot write a script: {error}"))?;
        command.args(["-Ztrim-paths", "--config", "profile.release.trim-paths=\"all\""]);
        command.env("RUSTC_WRAPPER", wrapper);
    }
    let output = command
        .output()
        .map_err(|error| format!("cannot run {}: {error}", toolchain.cargo.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        // Cargo shows what a failed build script wrote to stderr.
        eprintln!("{said}");
        return Err(format!(
            "the kernel half in {} does not build: the compiler's messages follow after `stderr`",
            half.dir
        ));
    }
    let object = target_dir.join("bpfel-unknown-none/release").join(half.binary);
    Ok(Built { object, warnings: warnings(&said) })
}

/// Each warning with its place: "unused variable: `a` (src/main.rs:3:9)".
fn warnings(said: &str) -> Vec<String> {
    let mut lines = said.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(warning) = line.strip_prefix("warning: ") {
            let place = lines.peek().and_then(|next| next.trim().strip_prefix("--> "));
            found.push(match place {
                Some(place) => format!("{warning} ({place})"),
                None => warning.into(),
            });
        }
    }
    found
}

/// One target folder for every kernel half and profile, so that `core` is compiled once:
/// `<target>/ebpf`, found from `<target>/<profile>/build/<package>/out`. It has a lock of its own,
/// apart from that of the cargo that runs us.
fn shared_target_dir(out_dir: &Path) -> PathBuf {
    out_dir.ancestors().nth(4).unwrap_or(out_dir).join("ebpf")
}

fn command(toolchain: &Toolchain, half: KernelHalf<'_>, target_dir: &Path) -> Command {
    let linker = format!("-Clinker={}", toolchain.linker.display());
    // Debug information becomes BTF with function and line info: symbols for our own programs.
    let rustflags = [linker.as_str(), "-Cdebuginfo=2", "-Clink-arg=--btf"];
    let mut command = Command::new(&toolchain.cargo);
    // What the outer cargo sets for its own target and wrappers must not reach the inner one.
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        let inherited = ["CARGO_", "RUSTC", "RUSTFLAGS", "RUSTDOC", "RUSTUP_TOOLCHAIN", "CLIPPY"];
        let kept = ["CARGO_HOME", "CARGO_HTTP", "CARGO_NET", "CARGO_REGISTR", "CARGO_SOURCE"];
        if inherited.iter().any(|prefix| name.starts_with(prefix))
            && !kept.iter().any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(&key);
        }
    }
    command
        .args(["build", "--release", "--locked", "-Zbuild-std=core"])
        .args(["--target", "bpfel-unknown-none", "--bin", half.binary])
        .args(["--features", &half.features.join(",")])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(half.dir)
        .env("RUSTC", &toolchain.rustc)
        // Debian's rustc is a stable one that may use -Z; for a nightly it changes nothing.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\x1f"))
        .stdin(Stdio::null());
    command
}

/// Names of functions contain a hash of what cargo calls a crate's metadata, which is made of the path of its
/// folder. Crates of ours have a fixed one instead.
const WRAPPER: &str = r#"#!/bin/sh
compiler=$1
shift
name=
for word; do
    [ "$before" = --crate-name ] && name=$word
    before=$word
done
case $name in
wingbeat_* | *_ebpf)
    for word; do
        shift
        case $word in metadata=*) word=metadata=wingbeat ;; esac
        set -- "$@" "$word"
    done
    ;;
esac
exec "$compiler" "$@"
"#;

fn wrapper(target_dir: &Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(target_dir)?;
    let path = target_dir.join("rustc-wrapper");
    fs::write(&path, WRAPPER)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_come_with_their_place() {
        let said = "   Compiling a v0.1.0
warning: unused variable: `b`
 --> src/main.rs:3:9
  |
3 |     let b = 1;

warning: `a` (bin \"a\") generated 1 warning
    Finished `release` profile
";
        let expected =
            ["unused variable: `b` (src/main.rs:3:9)", "`a` (bin \"a\") generated 1 warning"];
        assert_eq!(warnings(said), expected);
        assert_eq!(warnings("    Finished"), [""; 0]);
    }

    #[test]
    fn kernel_halves_share_a_target_folder() {
        let out_dir = Path::new("/t/debug/build/profile-0123/out");
        assert_eq!(shared_target_dir(out_dir), Path::new("/t/ebpf"));
    }
}
