//! The Debian package of a release: Debian's file layout and metadata.
//!
//! It depends on nothing, and has no maintainer scripts.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, bail, ensure};
use wingbeat_steps::{command::repository, folders};

use super::{TIME_S, VERSION, captured_in_place, copy, names};

/// Debian requires a maintainer.
const MAINTAINER: &str = "The wingbeat authors <wingbeat@localhost>";

/// Files of a release and their destinations. Man pages are separate, because they are compressed.
const PLACES: [(&str, &str); 5] = [
    ("wingbeat", "usr/bin/wingbeat"),
    ("cargo-wingbeat", "usr/bin/cargo-wingbeat"),
    ("completions/wingbeat.bash", "usr/share/bash-completion/completions/wingbeat"),
    ("completions/_wingbeat", "usr/share/zsh/vendor-completions/_wingbeat"),
    // Not in `completions`, which is reserved for fish itself.
    ("completions/wingbeat.fish", "usr/share/fish/vendor_completions.d/wingbeat.fish"),
];
const MAN: &str = "usr/share/man/man1";
const DOC: &str = "usr/share/doc/wingbeat";

/// Third-party parts of the binary whose licences require more than a notice.
const COPYRIGHT_HEAD: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: wingbeat
Comment:
 The binary is linked statically. It contains Rust crates under permissive
 licences, SQLite, which is in the public domain, and parts of the GNU C Library
 under LGPL-2.1 or newer. Their sources, and those of wingbeat, from which anyone
 can link it again, are public.
 .
 The programs that it loads into the kernel are under MIT or GPL-2.0.

Files: *
Copyright: The wingbeat authors
License: MIT or Apache-2.0

License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.

License: MIT
";

/// The file name.
pub(super) fn name() -> anyhow::Result<String> {
    Ok(format!("wingbeat_{}_{}.deb", version(VERSION), architecture()?))
}

/// A pre-release version has a tilde, which sorts before nothing.
fn version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

/// Debian's name of this architecture.
fn architecture() -> anyhow::Result<&'static str> {
    match env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("there is no package for {other}: wingbeat knows x86_64 and aarch64"),
    }
}

pub(super) fn pack(release: &Path, package: &Path) -> anyhow::Result<()> {
    let out = package.parent().unwrap_or(Path::new("."));
    let staging = tempfile::Builder::new().prefix("deb-").tempdir_in(out);
    let staging = staging.with_context(|| format!("cannot make a folder in {}", out.display()))?;
    let root = staging.path();
    fill(release, root)?;
    describe(root)?;
    normalize(root)?;
    let mut dpkg_deb = Command::new("dpkg-deb");
    // Debian 11 does not support zstd, the default on Ubuntu.
    dpkg_deb.args(["--build", "--root-owner-group", "-Zxz"]).arg(root).arg(package);
    dpkg_deb.env("SOURCE_DATE_EPOCH", TIME_S.to_string());
    // The default, one per CPU, would make the bytes depend on the machine.
    dpkg_deb.env("DPKG_DEB_THREADS_MAX", "1");
    captured_in_place(&mut dpkg_deb).map(drop)
}

/// Copies the files to their destinations.
fn fill(release: &Path, root: &Path) -> anyhow::Result<()> {
    for (from, to) in PLACES {
        let to = root.join(to);
        fs::create_dir_all(to.parent().unwrap_or(root)).context("cannot make a folder")?;
        copy(&release.join(from), &to)?;
    }
    for folder in [MAN, DOC] {
        fs::create_dir_all(root.join(folder)).with_context(|| format!("cannot make {folder}"))?;
    }
    let pages = names(&release.join("man"), "1")?;
    ensure!(!pages.is_empty(), "{} has no man pages", release.display());
    for page in pages {
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        compress(&page, &root.join(MAN).join(format!("{name}.gz")))?;
    }
    compress(&repository().join("CHANGELOG.md"), &root.join(DOC).join("changelog.gz"))?;
    let mit = fs::read_to_string(release.join("LICENSE-MIT")).context("cannot read LICENSE-MIT")?;
    let text = format!("{COPYRIGHT_HEAD}{}", indented(&mit));
    fs::write(root.join(DOC).join("copyright"), text).context("cannot write the copyright")
}

/// A text as a multi-line field.
fn indented(text: &str) -> String {
    let line =
        |line: &str| if line.trim().is_empty() { " .\n".into() } else { format!(" {line}\n") };
    text.trim().lines().map(line).collect()
}

/// Compresses a file, without its name and time.
fn compress(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut gzip = Command::new("gzip");
    let bytes = captured_in_place(gzip.args(["--best", "--no-name", "--stdout"]).arg(from))?;
    fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}

/// Writes `DEBIAN/control` and the checksums of the files.
fn describe(root: &Path) -> anyhow::Result<()> {
    let files = folders::below(root)?;
    let mut md5sum = Command::new("md5sum");
    let inside = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_path_buf();
    md5sum.current_dir(root).args(files.iter().map(|path| inside(path)));
    let sums = captured_in_place(&mut md5sum)?;
    let size_kib = files.iter().try_fold(0, |sum, file| {
        let len = file.metadata().with_context(|| format!("cannot read {}", file.display()))?.len();
        anyhow::Ok(sum + len.div_ceil(1024))
    })?;
    let folder = root.join("DEBIAN");
    fs::create_dir(&folder).context("cannot make the folder DEBIAN")?;
    fs::write(folder.join("control"), control(size_kib)?).context("cannot write control")?;
    fs::write(folder.join("md5sums"), sums).context("cannot write md5sums")
}

fn control(size_kib: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| writeln!(text, "{name}: {value}");
    field("Package", "wingbeat")?;
    field("Version", &version(VERSION))?;
    field("Architecture", architecture()?)?;
    field("Maintainer", MAINTAINER)?;
    field("Installed-Size", &size_kib.to_string())?;
    // For pushes to another machine over HTTPS.
    field("Recommends", "ca-certificates")?;
    field("Section", "devel")?;
    field("Priority", "optional")?;
    field("Description", "profiler and benchmarks for eBPF and Rust")?;
    text.push_str(
        " wingbeat measures what eBPF and Rust code costs, down to the source line:\n \
         a sampling profiler, a benchmark runner for eBPF programs, and continuous\n \
         benchmarking that fails CI on a regression, in one binary.\n .\n \
         `wingbeat doctor` shows what works on this machine.\n",
    );
    Ok(text)
}

/// Sets the mode and time of every file reproducibly, regardless of the umask.
fn normalize(folder: &Path) -> anyhow::Result<()> {
    let time = UNIX_EPOCH + Duration::from_secs(TIME_S);
    for path in folders::sorted(folder)? {
        if path.is_dir() {
            normalize(&path)?;
        } else {
            let is_program = path.parent().is_some_and(|folder| folder.ends_with("usr/bin"));
            set(&path, if is_program { 0o755 } else { 0o644 }, time)?;
        }
    }
    set(folder, 0o755, time)
}

fn set(path: &Path, mode: u32, time: std::time::SystemTime) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .and_then(|()| File::open(path)?.set_modified(time))
        .with_context(|| format!("cannot set mode and time of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_debian_does() {
        assert_eq!(version("1.2.3"), "1.2.3");
        assert_eq!(version("1.2.3-rc.1"), "1.2.3~rc.1");
    }

    #[test]
    fn empty_lines_of_a_field_have_a_dot() {
        assert_eq!(indented("a\n\nb\n"), " a\n .\n b\n");
    }
}
