//! The guest's disk: an ext4 image of everything independent of the kernel. Cached, and rebuilt only when a file in it
//! has changed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use super::{
    architecture::Architecture,
    guest, programs,
    stage::{Stage, compiler_part, header_folders},
    suites::Suites,
    userland, write,
};
use xtask::{
    command::{find_program, output_of, repository, run_logged},
    folders,
};

/// Includes room for files of tests; holes take no space.
const SIZE: &str = "6G";

/// What a guest starts from.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) image: PathBuf,
    /// For the first steps, before the image is mounted.
    pub(super) busybox: PathBuf,
}

/// The image with these test programs; built in the folder `place`.
pub(super) fn build(
    suites: &Suites,
    architecture: &Architecture,
    place: &Path,
) -> anyhow::Result<Disk> {
    let mut stage = Stage::new(architecture.objcopy);
    let busybox = if architecture.is_native() {
        programs_of_this_machine(&mut stage)?;
        find_program("busybox").context("busybox has gone from PATH")?
    } else {
        let userland = userland::get(architecture, place)?;
        stage.root(&userland)?;
        userland::busybox(&userland)
    };
    gather(&mut stage, suites);
    let image = pack(&stage, place)?;
    Ok(Disk { image, busybox })
}

/// The image with these files, cached if they are unchanged.
fn pack(stage: &Stage, place: &Path) -> anyhow::Result<PathBuf> {
    let (image, stamp) = (place.join("disk.ext4"), place.join("disk.stamp"));
    let fingerprint = stage.fingerprint();
    if image.is_file() && fs::read_to_string(&stamp).is_ok_and(|before| before == fingerprint) {
        return Ok(image);
    }
    eprintln!("==> packing {}", image.display());
    let _ = fs::remove_file(&stamp);
    let _ = fs::remove_file(&image);
    let root = place.join("disk");
    let log = place.join("disk.log");
    let _ = fs::remove_file(&log);
    folders::remove(&root)?;
    stage.write(&root, &log)?;
    let mut command = Command::new(find_program("mke2fs").context("mke2fs has gone")?);
    command.args(["-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal"]);
    command.args(["-E", "root_owner=0:0", "-d"]).arg(&root).arg(&image).arg(SIZE);
    run_logged(&mut command, &log)?;
    folders::remove(&root)?;
    write(&stamp, fingerprint.as_bytes())?;
    Ok(image)
}

fn gather(stage: &mut Stage, suites: &Suites) {
    for folder in ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/root", "/etc"] {
        stage.folder(folder);
    }
    stage.text(guest::RUN_PATH, guest::RUN);
    sources(stage);
    for program in suites.tests.iter().map(|suite| &suite.program).chain(&suites.programs) {
        stage.built(program, suites.optimized.get(program).unwrap_or(program));
    }
    for object in &suites.objects {
        stage.file(object);
    }
}

fn programs_of_this_machine(stage: &mut Stage) -> anyhow::Result<()> {
    for file in programs::FILES.split_whitespace() {
        stage.file(&Path::new("/etc").join(file));
    }
    for name in programs::CALLED {
        stage.called(name);
    }
    compiler(stage)
}

/// The C compiler with its headers and the files that it links.
fn compiler(stage: &mut Stage) -> anyhow::Result<()> {
    for name in programs::COMPILER_PROGRAMS {
        if let Some(path) = compiler_part("prog", name) {
            stage.program(&path);
        }
    }
    for name in programs::COMPILER_FILES.split_whitespace() {
        if let Some(path) = compiler_part("file", name) {
            stage.file(&path);
        }
    }
    let leave = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && programs::HEADERS_LEFT_OUT.iter().any(|left| name.starts_with(left))
    };
    for folder in header_folders()? {
        let context = || format!("cannot read the headers in {}", folder.display());
        if folder.is_dir() {
            stage.tree(&folder, &leave).with_context(context)?;
        }
    }
    Ok(())
}

/// The repository's own files, some of which tests read.
fn sources(stage: &mut Stage) {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let said = output_of(command.current_dir(repository())).unwrap_or_default();
    for file in said.split('\0').filter(|file| !file.is_empty()) {
        stage.file(&repository().join(file));
    }
}
