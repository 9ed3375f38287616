//! The eBPF toolchain as recorded by `cargo xtask setup`.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// LLVM major versions that the pinned bpf-linker (0.13) supports.
pub const LLVM_MAJORS: [u32; 3] = [21, 22, 23];

/// Toolchain of kernel halves: a cargo and a rustc that accept `-Z build-std`, the sources of
/// `core`, and a bpf-linker built for the LLVM of that rustc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    pub cargo: PathBuf,
    pub rustc: PathBuf,
    pub linker: PathBuf,
}

/// Why there is no usable toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// `cargo xtask setup` never ran for this user. Contains the path of its record.
    NotSetUp(PathBuf),
    /// The record names a missing file.
    Gone(PathBuf),
    /// The record is malformed. Contains its path.
    Broken(PathBuf),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSetUp(record) => {
                write!(f, "the eBPF toolchain is not set up ({} is missing)", record.display())
            }
            Self::Gone(tool) => {
                write!(f, "the eBPF toolchain is incomplete ({} is gone)", tool.display())
            }
            Self::Broken(record) => {
                write!(f, "the record of the eBPF toolchain is damaged ({})", record.display())
            }
        }
    }
}

impl std::error::Error for Missing {}

impl Toolchain {
    /// Folder for files installed by `cargo xtask setup`: `$XDG_CACHE_HOME/wingbeat` or
    /// `~/.cache/wingbeat`. Shared by all clones, so further setups are fast.
    pub fn cache_dir() -> PathBuf {
        let base = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into()));
        base.unwrap_or_else(|| home().join(".cache")).join("wingbeat")
    }

    /// File that records the choice of `cargo xtask setup`.
    pub fn record_path() -> PathBuf {
        Self::cache_dir().join("ebpf-toolchain")
    }

    /// Reads the recorded toolchain and checks that its three tools still exist.
    pub fn recorded() -> Result<Self, Missing> {
        let path = Self::record_path();
        let text = fs::read_to_string(&path).map_err(|_| Missing::NotSetUp(path.clone()))?;
        let toolchain = Self::parse(&text).ok_or(Missing::Broken(path))?;
        for tool in [&toolchain.cargo, &toolchain.rustc, &toolchain.linker] {
            if !tool.is_file() {
                return Err(Missing::Gone(tool.clone()));
            }
        }
        Ok(toolchain)
    }

    /// Writes the record atomically. Does not touch an identical record: a changed file triggers a
    /// rebuild of kernel halves.
    pub fn record(&self) -> io::Result<()> {
        let path = Self::record_path();
        if fs::read_to_string(&path).is_ok_and(|text| text == self.to_text()) {
            return Ok(());
        }
        fs::create_dir_all(Self::cache_dir())?;
        let draft = path.with_extension("new");
        fs::write(&draft, self.to_text())?;
        fs::rename(draft, path)
    }

    fn to_text(&self) -> String {
        let Self { cargo, rustc, linker } = self;
        format!(
            "# written by `cargo xtask setup`\ncargo = {}\nrustc = {}\nlinker = {}\n",
            cargo.display(),
            rustc.display(),
            linker.display()
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            text.lines().find_map(|line| {
                let (name, value) = line.split_once('=')?;
                (name.trim() == key).then(|| PathBuf::from(value.trim()))
            })
        };
        Some(Self { cargo: value("cargo")?, rustc: value("rustc")?, linker: value("linker")? })
    }
}

/// LLVM major version of a rustc, from `rustc -vV`; `None` if it does not run or print it.
pub fn llvm_major(rustc: &Path) -> Option<u32> {
    let output = Command::new(rustc).arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_survives_a_round_trip() {
        let toolchain = Toolchain {
            cargo: "/usr/bin/cargo".into(),
            rustc: "/usr/bin/rustc".into(),
            linker: "/home/a b/bpf-linker".into(),
        };
        assert_eq!(Toolchain::parse(&toolchain.to_text()), Some(toolchain));
    }

    #[test]
    fn half_a_record_is_none() {
        assert_eq!(Toolchain::parse("cargo = /usr/bin/cargo\n"), None);
        assert_eq!(Toolchain::parse(""), None);
    }
}
