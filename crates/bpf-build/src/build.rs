//! Compiles one kernel half from a build script.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio, exit},
};

use crate::{Toolchain, compiled};

/// A crate of eBPF programs.
#[derive(Debug, Clone, Copy)]
pub struct KernelHalf<'a> {
    /// Folder of the crate, relative to the crate of the calling build script.
    pub dir: &'a str,
    pub binary: &'a str,
    pub features: &'a [&'a str],
    /// More folders whose changes require a rebuild (crates shared by both halves).
    pub shared: &'a [&'a str],
    /// Folder with prebuilt objects of the half, relative like `dir`: see `compiled`.
    pub compiled: Option<&'a str>,
}

impl KernelHalf<'_> {
    /// Source files and folders, relative like `dir`; some may be missing.
    pub(crate) fn sources(&self) -> impl Iterator<Item = PathBuf> {
        self.shared.iter().chain([&self.dir]).flat_map(|dir| {
            ["src", "build.rs", "Cargo.toml", "Cargo.lock"].map(|part| Path::new(dir).join(part))
        })
    }
}

/// Writes the object file of a kernel half to `$OUT_DIR/<binary>`: the prebuilt one if its sources
/// have not changed, else a new build.
///
/// For build scripts: declares to cargo what to watch, forwards compiler warnings, and fails the build
/// with a one-sentence error.
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
            // The line above fails the build by itself. A failing exit status would bury it under
            // all other output of this build script.
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

/// Writes an empty object in the package of an example, which lacks its kernel half. Published crates
/// contain theirs or need none.
fn packaged_without(half: KernelHalf<'_>) {
    println!("cargo::warning={} is not in this package: its programs cannot be loaded", half.dir);
    let empty = env::var_os("OUT_DIR").map(|dir| fs::write(Path::new(&dir).join(half.binary), ""));
    if let Some(Err(error)) = empty {
        println!("cargo::error=cannot write to OUT_DIR: {error}");
    }
}

/// Compiler warnings, or the error.
fn build_out(half: KernelHalf<'_>, toolchain: &Toolchain) -> Result<Vec<String>, String> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| env::consts::ARCH.to_owned());
    let Built { object, warnings } =
        build(half, toolchain, &shared_target_dir(&out_dir), Purpose::Here { arch: &arch })?;
    fs::copy(&object, out_dir.join(half.binary))
        .map_err(|error| format!("cannot copy {}: {error}", object.display()))?;
    Ok(warnings)
}

/// A built object file.
#[derive(Debug, Clone)]
pub struct Built {
    pub object: PathBuf,
    pub warnings: Vec<String>,
}

/// Purpose of an object, with the architecture whose registers its programs read.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// A local build for this machine.
    Here { arch: &'a str },
    /// For others: reproducible, whatever folder the sources are in.
    Everywhere { arch: &'a str },
}

/// Builds the kernel half below a target folder; returns a message on failure.
pub fn build(
    half: KernelHalf<'_>,
    toolchain: &Toolchain,
    target_dir: &Path,
    purpose: Purpose<'_>,
) -> Result<Built, String> {
    let mut command = command(toolchain, half, target_dir);
    // Not the host's registers if the user half is cross-compiled.
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        // Cargo shows the stderr of a failed build script.
        eprintln!("{stderr}");
        return Err(format!(
            "the kernel half in {} does not build: the compiler's messages follow after `stderr`",
            half.dir
        ));
    }
    let object = target_dir.join("bpfel-unknown-none/release").join(half.binary);
    Ok(Built { object, warnings: warnings(&stderr) })
}

/// Each warning with its location: "unused variable: `a` (src/main.rs:3:9)".
fn warnings(stderr: &str) -> Vec<String> {
    let mut lines = stderr.lines().peekable();
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

/// One target folder for all kernel halves and profiles, so that `core` is compiled once:
/// `<target>/ebpf`, derived from `<target>/<profile>/build/<package>/out`. It has its own lock,
/// separate from that of the outer cargo.
fn shared_target_dir(out_dir: &Path) -> PathBuf {
    out_dir.ancestors().nth(4).unwrap_or(out_dir).join("ebpf")
}

fn command(toolchain: &Toolchain, half: KernelHalf<'_>, target_dir: &Path) -> Command {
    let linker = format!("-Clinker={}", toolchain.linker.display());
    // Debug information becomes BTF with function and line info: symbols for our own programs.
    let rustflags = [linker.as_str(), "-Cdebuginfo=2", "-Clink-arg=--btf"];
    let mut command = Command::new(&toolchain.cargo);
    // Variables of the outer cargo for its target and wrappers must not reach the inner one.
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
        // Debian's rustc is stable and needs this for -Z; no effect on a nightly.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\x1f"))
        .stdin(Stdio::null());
    command
}

/// Function names contain a hash of the crate metadata, which depends on the path of its folder.
/// Our crates get fixed metadata instead.
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
        let stderr = "   Compiling a v0.1.0
warning: unused variable: `b`
 --> src/main.rs:3:9
  |
3 |     let b = 1;

warning: `a` (bin \"a\") generated 1 warning
    Finished `release` profile
";
        let expected =
            ["unused variable: `b` (src/main.rs:3:9)", "`a` (bin \"a\") generated 1 warning"];
        assert_eq!(warnings(stderr), expected);
        assert_eq!(warnings("    Finished"), [""; 0]);
    }

    #[test]
    fn kernel_halves_share_a_target_folder() {
        let out_dir = Path::new("/t/debug/build/profile-0123/out");
        assert_eq!(shared_target_dir(out_dir), Path::new("/t/ebpf"));
    }
}
