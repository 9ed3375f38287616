//! The folder in which the harness and the projects lie: copies that may be changed.
//!
//! The examples come from this repository, the public projects from the registry, as cargo unpacks them. All are
//! dependencies by path, so that they count as the user's own code. The folder is a repository of git, which has each
//! case as a commit: that is where lines before and after are known from.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, anyhow};
use wingbeat_ebpf_build::{KernelHalf, Purpose, Toolchain};
use wingbeat_steps::{
    command::{cargo, repository},
    folders,
};

use super::inject::{Edit, Injected};
use crate::comparison::{fresh, out, output};

/// The harness, below the repository's root: a package of benchmarks.
const HARNESS: &str = "crates/dev/peers/harness";

/// Files and folders of the examples, and where they come to lie. Benchmarks of the examples serve as they are.
const COPIED: [(&str, &str); 9] = [
    ("examples/amicable/src/main.rs", "projects/amicable/src/lib.rs"),
    ("examples/fun-xdp/fun-xdp-common/src", "projects/fun-xdp-common/src"),
    ("examples/fun-xdp/fun-xdp-ebpf", "projects/fun-xdp-ebpf"),
    ("examples/fun-xdp/fun-xdp/benches/source_addr.rs", "harness/benches/fun_xdp.rs"),
    ("examples/profiler/profiler/src/lib.rs", "projects/profiler/src/lib.rs"),
    ("examples/profiler/profiler/src/oops.rs", "projects/profiler/src/oops.rs"),
    ("examples/profiler/profiler/src/sample.rs", "projects/profiler/src/sample.rs"),
    ("examples/profiler/profiler/benches/process_sample.rs", "harness/benches/profiler.rs"),
    ("examples/profiler/profiler-common/src", "projects/profiler-common/src"),
];

/// The examples as packages of their own: without the parts that need a kernel.
const EXAMPLES: [(&str, &str); 4] = [
    ("amicable", "clap = { version = \"4\", features = [\"derive\"] }"),
    ("fun-xdp-common", ""),
    (
        "profiler",
        "log = \"0.4\"\nprofiler-common = { path = \"../profiler-common\" }\nthiserror = \"2\"",
    ),
    ("profiler-common", ""),
];

/// What makes the copies fit.
const PREPARED: [Edit; 2] = [
    Edit {
        file: "projects/amicable/src/lib.rs",
        old: "fn print_pairs(",
        new: "pub fn print_pairs(",
    },
    Edit {
        file: "harness/benches/fun_xdp.rs",
        old: "use fun_xdp::SourceAddr;",
        new: "use fun_xdp_common::SourceAddr;",
    },
];

/// The public projects, whose versions are those that the cases were made for.
const PUBLISHED: [(&str, &str); 2] = [("httparse", "1.10.1"), ("semver", "1.0.28")];

#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
    /// Outlives the folder: Criterion takes minutes to build.
    pub(super) target: PathBuf,
}

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Self> {
        let scratch = Self { folder: fresh("guilty")?, target: out("guilty-target")? };
        let root = repository();
        copy(&root.join(HARNESS), &scratch.harness())?;
        // The same versions of dependencies as ours.
        copy(&root.join("Cargo.lock"), &scratch.harness().join("Cargo.lock"))?;
        for (from, to) in COPIED {
            copy(&root.join(from), &scratch.folder.join(to))?;
        }
        for (name, dependencies) in EXAMPLES {
            let file = scratch.projects().join(name).join("Cargo.toml");
            write(&file, &manifest(name, dependencies))?;
        }
        scratch.unpack()?;
        Injected::new(&scratch.folder, &PREPARED)?.keep();
        // Cargo completes the lock file, which would make the commits differ from what is measured.
        write(&scratch.folder.join(".gitignore"), "/stores\n/unpack\nCargo.lock\n")?;
        output(scratch.git().args(["init", "--quiet"]))?;
        scratch.commit("Copy the examples and the public projects")?;
        Ok(scratch)
    }

    pub(super) fn harness(&self) -> PathBuf {
        self.folder.join("harness")
    }

    pub(super) fn projects(&self) -> PathBuf {
        self.folder.join("projects")
    }

    /// Commits what is there.
    pub(super) fn commit(&self, message: &str) -> anyhow::Result<()> {
        output(self.git().args(["add", "--all"]))?;
        output(self.git().args(["commit", "--quiet", "--no-verify", "--message", message]))?;
        Ok(())
    }

    fn git(&self) -> Command {
        let mut git = Command::new("git");
        git.arg("-C").arg(&self.folder);
        for setting in ["user.name=peers", "user.email=peers@localhost", "commit.gpgSign=false"] {
            git.args(["-c", setting]);
        }
        git
    }

    /// Builds the eBPF programs.
    pub(super) fn kernel_half(&self) -> anyhow::Result<PathBuf> {
        let folder = self.projects().join("fun-xdp-ebpf");
        let dir = folder.to_str().context("the repository's path is no text")?;
        let half =
            KernelHalf { dir, binary: "fun-xdp", features: &[], shared: &[], compiled: None };
        let toolchain = Toolchain::recorded();
        let toolchain = toolchain.map_err(|it| anyhow!("{it}: run `cargo xtask setup`"))?;
        let here = Purpose::Here { arch: std::env::consts::ARCH };
        let built = wingbeat_ebpf_build::build(half, &toolchain, &self.target.join("ebpf"), here);
        Ok(built.map_err(|error| anyhow!(error))?.object)
    }

    /// A folder for a store.
    pub(super) fn store(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("stores").join(name);
        folders::fresh(&folder)?;
        Ok(folder)
    }

    /// Unpacks the public projects, by cargo.
    fn unpack(&self) -> anyhow::Result<()> {
        let wanted = PUBLISHED.map(|(name, version)| format!("{name} = \"={version}\""));
        let folder = self.folder.join("unpack");
        folders::fresh(&folder)?;
        write(&folder.join("Cargo.toml"), &manifest("unpack", &wanted.join("\n")))?;
        folders::fresh(&folder.join("src"))?;
        write(&folder.join("src/lib.rs"), "")?;
        let unpacked = folder.join("vendor");
        output(cargo().current_dir(&folder).args(["vendor", "--quiet"]).arg(&unpacked))?;
        PUBLISHED
            .iter()
            .try_for_each(|(name, _)| copy(&unpacked.join(name), &self.projects().join(name)))
    }
}

/// Copies a file, or all that is in a folder.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let files = if from.is_dir() { folders::below(from)? } else { vec![from.to_path_buf()] };
    for file in files {
        let inside = file.strip_prefix(from).unwrap_or(Path::new(""));
        let to = if inside.as_os_str().is_empty() { to.to_path_buf() } else { to.join(inside) };
        let folder = to.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        fs::copy(&file, &to)
            .with_context(|| format!("cannot copy {} to {}", file.display(), to.display()))?;
    }
    Ok(())
}

/// The manifest of a package that belongs to no workspace.
fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[features]\noops = []\n\n[workspace]\n\n\
         [dependencies]\n{dependencies}\n"
    )
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
