//! A kernel to boot: out of Debian's package, fetched once, or from a path.

use std::{
    cmp::Reverse,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, ensure};

use super::{architecture::Architecture, fresh_folder, unpack_packages};
use crate::setup;
use wingbeat_steps::{
    command::{output_of, run_logged},
    folders::sorted,
};

/// A kernel with its modules.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// As it was asked for, `6.1`; of a path its last part.
    pub(super) name: String,
    pub(super) image: PathBuf,
    /// The folder `lib/modules/RELEASE`; none when everything is said to be built in.
    pub(super) modules: Option<PathBuf>,
    /// The configuration that it was built with, from beside the image.
    pub(super) configuration: Option<PathBuf>,
}

impl Kernel {
    /// The kernel of that name, or at that path; below `place` what was fetched is kept.
    pub(super) fn fetch(
        name: &str,
        architecture: &Architecture,
        place: &Path,
    ) -> anyhow::Result<Self> {
        if is_series(name) {
            Self::of_series(name, architecture, place)
        } else {
            Self::at_path(Path::new(name))
        }
    }

    /// An image in a folder `boot` has its modules beside it, in `lib/modules`.
    fn at_path(image: &Path) -> anyhow::Result<Self> {
        ensure!(
            image.is_file(),
            "{} is neither a series of kernels, such as 6.12, nor the file of one",
            image.display()
        );
        let file = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let release = file.split_once('-').map(|(_, release)| release);
        let root = image.parent().and_then(Path::parent);
        let modules = release
            .zip(root)
            .map(|(release, root)| root.join("lib/modules").join(release))
            .filter(|folder| folder.is_dir());
        let configuration = release
            .map(|release| image.with_file_name(format!("config-{release}")))
            .filter(|path| path.is_file());
        Ok(Self { name: file, image: image.to_path_buf(), modules, configuration })
    }

    fn of_series(series: &str, architecture: &Architecture, place: &Path) -> anyhow::Result<Self> {
        let folder = place.join("kernels").join(series);
        if !folder.is_dir() {
            Packages { series, architecture, place }.fetch(&folder)?;
        }
        let image = only_file(&folder.join("boot"), "vmlinuz-")?;
        Ok(Self { name: series.to_owned(), ..Self::at_path(&image)? })
    }
}

/// Whether a name is like `6.12`.
fn is_series(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    name.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Debian's packages of a series of kernels.
struct Packages<'a> {
    series: &'a str,
    architecture: &'a Architecture,
    place: &'a Path,
}

impl Packages<'_> {
    /// Downloads the newest one and unpacks it into `folder`.
    fn fetch(&self, folder: &Path) -> anyhow::Result<()> {
        let draft = fresh_folder(folder)?;
        let log = draft.join("log");
        if let Err(error) = self.download(&draft, &log) {
            // A machine has no lists before it asks for them, and old ones name packages that are gone.
            eprintln!("note        {error:#}");
            match self.architecture.is_native() {
                true => setup::package_lists()?,
                false => self.architecture.update_lists(self.place)?,
            }
            self.download(&draft, &log)?;
        }
        unpack_packages(&draft, &log)?;
        fs::rename(&draft, folder).with_context(|| format!("cannot create {}", folder.display()))
    }

    fn download(&self, folder: &Path, log: &Path) -> anyhow::Result<()> {
        let Self { series, architecture, .. } = self;
        let package = self.offered().ok_or_else(|| {
            anyhow!(
                "apt knows no package linux-image-{series}.*-cloud-{}; run `apt-get update` as root, \
                 then this again, or give the path of a kernel's image with --kernel",
                architecture.name
            )
        })?;
        eprintln!("fetching    {package}");
        let mut download = architecture.apt("apt-get", self.place);
        run_logged(download.args(["download", &package]).current_dir(folder), log)?;
        Ok(())
    }

    /// The newest one that apt offers.
    fn offered(&self) -> Option<String> {
        let series = self.series.replace('.', r"\.");
        let name = self.architecture.name;
        let pattern = format!(r"^linux-image-{series}\.[0-9].*-cloud-{name}$");
        let mut search = self.architecture.apt("apt-cache", self.place);
        newest(&output_of(search.args(["search", "--names-only", &pattern])).unwrap_or_default())
    }
}

/// The package with the greatest version in the output of `apt-cache search`.
fn newest(found: &str) -> Option<String> {
    let names = found.lines().filter_map(|line| line.split_whitespace().next());
    names.min_by_key(|name| Reverse(numbers(name))).map(String::from)
}

/// The numbers in a name: as versions compare.
pub(super) fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The file in a folder whose name begins so.
fn only_file(folder: &Path, prefix: &str) -> anyhow::Result<PathBuf> {
    let begins_so = |name: &OsStr| name.to_string_lossy().starts_with(prefix);
    let found = sorted(folder)?.into_iter().find(|path| path.file_name().is_some_and(begins_so));
    let missing = || {
        format!("there is no {prefix}* in {}; delete that folder and try again", folder.display())
    };
    found.with_context(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::architecture::AMD64;

    #[test]
    fn series_are_two_numbers() {
        let check = |name, expected| assert_eq!(is_series(name), expected, "{name}");
        check("6.1", true);
        check("6.12", true);
        check("6", false);
        check("6.", false);
        check("6.12.3", false);
        check("boot/vmlinuz-6.1", false);
    }

    #[test]
    fn the_newest_package_is_the_one_with_the_greatest_numbers() {
        let check = |found, expected: Option<&str>| assert_eq!(newest(found).as_deref(), expected);
        check("", None);
        check(
            "linux-image-6.1.0-9-cloud-amd64 - Linux\nlinux-image-6.1.0-50-cloud-amd64 - Linux\n\
             linux-image-6.1.0-49-cloud-amd64 - Linux\n",
            Some("linux-image-6.1.0-50-cloud-amd64"),
        );
        check(
            "linux-image-6.12.9+deb12-cloud-amd64 - L\nlinux-image-6.12.101+deb12-cloud-amd64 - L",
            Some("linux-image-6.12.101+deb12-cloud-amd64"),
        );
    }

    #[test]
    fn a_path_that_is_no_kernel_is_told() {
        let error = Kernel::fetch("no/such/vmlinuz", &AMD64, Path::new(".")).expect_err("no file");
        let expected = "no/such/vmlinuz is neither a series of kernels, such as 6.12, nor the file \
                        of one";
        assert_eq!(error.to_string(), expected);
    }
}
