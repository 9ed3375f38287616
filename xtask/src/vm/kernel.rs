//! A kernel to boot: from Debian's package, downloaded once, or from a path.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use super::{
    architecture::Architecture,
    fresh_folder,
    lists::{self, Lists},
    unpack_packages,
};
use xtask::{
    command::{output_of, run_logged},
    folders::sorted,
};

/// A kernel with its modules.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// The name as requested, `6.1`; for a path its last part.
    pub(super) name: String,
    pub(super) image: PathBuf,
    /// The folder `lib/modules/RELEASE`; none if everything is built in.
    pub(super) modules: Option<PathBuf>,
    /// The build configuration, from next to the image.
    pub(super) configuration: Option<PathBuf>,
}

impl Kernel {
    /// The kernel with that name, or at that path; downloads are kept below `place`.
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

    /// An image in a folder `boot` has its modules in `lib/modules` next to that folder; one named just `vmlinuz` is
    /// among its modules.
    fn at_path(image: &Path) -> anyhow::Result<Self> {
        ensure!(
            image.is_file(),
            "{} is neither a series of kernels, such as 6.12, nor the file of one",
            image.display()
        );
        let file = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = image.parent().unwrap_or(Path::new("."));
        let (name, modules, configuration) = match file.split_once('-') {
            Some((_, release)) => {
                let modules = folder.parent().map(|root| root.join("lib/modules").join(release));
                (file.clone(), modules, folder.join(format!("config-{release}")))
            }
            None if folder.join("kernel").is_dir() => {
                let release = folder.file_name().unwrap_or_default().to_string_lossy();
                (release.into_owned(), Some(folder.to_path_buf()), folder.join("config"))
            }
            None => (file.clone(), None, folder.join("config")),
        };
        Ok(Self {
            name,
            image: image.to_path_buf(),
            modules: modules.filter(|folder| folder.is_dir()),
            configuration: Some(configuration).filter(|path| path.is_file()),
        })
    }

    fn of_series(series: &str, architecture: &Architecture, place: &Path) -> anyhow::Result<Self> {
        let folder = place.join("kernels").join(series);
        if !folder.is_dir() {
            Packages { series, architecture, place }.fetch(&folder)?;
        }
        Ok(Self { name: series.to_owned(), ..Self::at_path(&image_in(&folder)?)? })
    }
}

/// Whether a name is like `6.12`.
fn is_series(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    name.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Debian's packages of a kernel series.
struct Packages<'a> {
    series: &'a str,
    architecture: &'a Architecture,
    place: &'a Path,
}

impl Packages<'_> {
    /// Downloads the newest ones and unpacks them into `folder`.
    fn fetch(&self, folder: &Path) -> anyhow::Result<()> {
        let draft = fresh_folder(folder)?;
        let log = draft.join("log");
        let machine = Lists::of_machine(self.architecture, self.place);
        if let Err(error) = self.download(&machine, &draft, &log) {
            // A machine may have no lists yet, and old ones name deleted packages.
            eprintln!("note        {error:#}");
            machine.update()?;
            let again = self.download(&machine, &draft, &log);
            again.or_else(|error| self.download_of_suites(&draft, &log).map_err(|_| error))?;
        }
        unpack_packages(&draft, &log)?;
        fs::rename(&draft, folder).with_context(|| format!("cannot create {}", folder.display()))
    }

    /// Downloads them from the first Debian suite that has them.
    fn download_of_suites(&self, folder: &Path, log: &Path) -> anyhow::Result<()> {
        for suite in lists::SUITES {
            eprintln!("looking     in Debian's suite {suite}");
            let lists = Lists::of_suite(suite, self.architecture, self.place)?;
            lists.update()?;
            if self.download(&lists, folder, log).is_ok() {
                return Ok(());
            }
        }
        bail!("no suite of Debian has it")
    }

    fn download(&self, lists: &Lists, folder: &Path, log: &Path) -> anyhow::Result<()> {
        let Self { series, architecture, .. } = self;
        let packages = self.offered(lists);
        ensure!(
            !packages.is_empty(),
            "apt knows no package linux-image-{series}.*-cloud-{}; run `apt-get update` as root, then this again, or \
             give the path of a kernel's image with --kernel",
            architecture.name
        );
        eprintln!("fetching    {}", packages.join(" "));
        let mut download = lists.apt("apt-get");
        run_logged(download.arg("download").args(&packages).current_dir(folder), log)?;
        Ok(())
    }

    /// The newest ones that apt offers.
    fn offered(&self, lists: &Lists) -> Vec<String> {
        let (series, name) = (self.series.replace('.', r"\."), self.architecture.name);
        let parts = PARTS.join("|");
        let pattern = format!(r"^linux-({parts})-{series}\.[0-9].*-cloud-{name}$");
        let mut search = lists.apt("apt-cache");
        newest(&output_of(search.args(["search", "--names-only", &pattern])).unwrap_or_default())
    }
}

/// Packages of a kernel: everything is in the first, or since 7.2 each part in a separate one, the last with the
/// configuration.
const PARTS: &[&str] = &["image", "binary", "modules", "base"];

/// The packages with the greatest version in the output of `apt-cache search`.
fn newest(found: &str) -> Vec<String> {
    let names = found.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.collect();
    let Some(newest) = names.iter().map(|name| numbers(name)).max() else { return Vec::new() };
    let mut newest: Vec<_> =
        names.into_iter().filter(|name| numbers(name) == newest).map(String::from).collect();
    newest.sort();
    newest
}

/// The numbers in a name, which compare like versions.
pub(super) fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The image among unpacked files: in `boot`, or since 7.2 among its modules.
fn image_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let below = |name: &str| sorted(&folder.join(name)).unwrap_or_default();
    let is_image = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz") && path.is_file()
    };
    let among_modules = below("usr/lib/modules").into_iter().map(|release| release.join("vmlinuz"));
    below("boot").into_iter().chain(among_modules).find(is_image).with_context(|| {
        format!("there is no vmlinuz in {}; delete that folder and try again", folder.display())
    })
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
    fn the_newest_packages_are_those_with_the_greatest_numbers() {
        let check = |found, expected: &[&str]| assert_eq!(newest(found), expected);
        check("", &[]);
        check(
            "linux-image-6.1.0-9-cloud-amd64 - Linux\nlinux-image-6.1.0-50-cloud-amd64 - Linux\n\
             linux-image-6.1.0-49-cloud-amd64 - Linux\n",
            &["linux-image-6.1.0-50-cloud-amd64"],
        );
        check(
            "linux-image-6.12.9+deb12-cloud-amd64 - L\nlinux-image-6.12.101+deb12-cloud-amd64 - L",
            &["linux-image-6.12.101+deb12-cloud-amd64"],
        );
        check(
            "linux-modules-7.2.13+deb14-cloud-amd64 - L\nlinux-binary-7.2.9+deb14-cloud-amd64 - L\n\
             linux-binary-7.2.13+deb14-cloud-amd64 - L\nlinux-base-7.2.13+deb14-cloud-amd64 - L",
            &[
                "linux-base-7.2.13+deb14-cloud-amd64",
                "linux-binary-7.2.13+deb14-cloud-amd64",
                "linux-modules-7.2.13+deb14-cloud-amd64",
            ],
        );
    }

    #[test]
    fn both_forms_of_packages_are_read() {
        let check =
            |files: &[&str], image: &str, modules: Option<&str>, configuration: Option<&str>| {
                let folder = tempfile::tempdir().expect("a temporary folder");
                for file in files {
                    let path = folder.path().join(file);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
                    fs::write(path, "").expect("written");
                }
                let at = |name: &str| folder.path().join(name);
                let found = image_in(folder.path()).expect("an image");
                assert_eq!(found, at(image), "{files:?}");
                let kernel = Kernel::at_path(&found).expect("a kernel");
                assert_eq!(kernel.modules, modules.map(at), "{files:?}");
                assert_eq!(kernel.configuration, configuration.map(at), "{files:?}");
            };
        check(
            &[
                "boot/System.map-6.1",
                "boot/vmlinuz-6.1",
                "boot/config-6.1",
                "lib/modules/6.1/kernel/a.ko",
            ],
            "boot/vmlinuz-6.1",
            Some("lib/modules/6.1"),
            Some("boot/config-6.1"),
        );
        let new = ["usr/lib/modules/7.2/vmlinuz", "usr/lib/modules/7.2/kernel/a.ko"];
        check(&new, new[0], Some("usr/lib/modules/7.2"), None);
        let configuration = "usr/lib/modules/7.2/config";
        check(
            &[new[0], new[1], configuration],
            new[0],
            Some("usr/lib/modules/7.2"),
            Some(configuration),
        );
        check(&["boot/vmlinuz"], "boot/vmlinuz", None, None);
    }

    #[test]
    fn a_path_that_is_no_kernel_is_told() {
        let error = Kernel::fetch("no/such/vmlinuz", &AMD64, Path::new(".")).expect_err("no file");
        let expected = "no/such/vmlinuz is neither a series of kernels, such as 6.12, nor the file \
                        of one";
        assert_eq!(error.to_string(), expected);
    }
}
