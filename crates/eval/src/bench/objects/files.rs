//! Which object files there are: below folders that have the name of an origin, each content once.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use xtask::folders::{below, sorted};

/// A folder with object files of one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) origin: String,
    pub(super) dir: PathBuf,
}

/// An object file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) origin: String,
    pub(super) name: String,
    pub(super) file: PathBuf,
}

/// The folders that an argument stands for: `NAME=DIR`, or a folder whose folders are the origins.
pub(super) fn folders(argument: &str) -> anyhow::Result<Vec<Folder>> {
    if let Some((origin, dir)) = argument.split_once('=') {
        return Ok(vec![Folder { origin: origin.to_owned(), dir: dir.into() }]);
    }
    let dirs = sorted(Path::new(argument))?;
    let dirs = dirs.into_iter().filter(|dir| dir.is_dir());
    Ok(dirs.map(|dir| Folder { origin: name(&dir), dir }).collect())
}

/// All object files below the folders; of those with the same content the first.
pub(super) fn objects(folders: &[Folder]) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    // Reading all of them at once would take some hundred megabytes: only sizes are kept.
    let mut by_size: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for Folder { origin, dir } in folders {
        for file in
            below(dir)?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "o"))
        {
            let context = || format!("cannot read {}", file.display());
            let known = by_size.entry(file.metadata().with_context(context)?.len()).or_default();
            let content = fs::read(&file).with_context(context)?;
            if known.iter().any(|known| fs::read(known).is_ok_and(|other| other == content)) {
                continue;
            }
            known.push(file.clone());
            let name = file.strip_prefix(dir).unwrap_or(&file).display().to_string();
            objects.push(Object { origin: origin.clone(), name, file });
        }
    }
    Ok(objects)
}

/// The last part of a path.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for (name, content) in files {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, content).expect("a file");
        }
        dir
    }

    #[test]
    fn each_content_counts_once() {
        let dir = tree(&[
            ("a/2.o", "one"),
            ("a/1/x.o", "two"),
            ("a/x.txt", "three"),
            ("b/copy.o", "two"),
            ("b/as-long.o", "six"),
            ("none/readme", ""),
        ]);
        let text = dir.path().to_str().expect("a plain path");
        let found = objects(&folders(text).expect("folders")).expect("objects");
        let found: Vec<_> = found.iter().map(|it| (&*it.origin, &*it.name)).collect();
        assert_eq!(found, [("a", "1/x.o"), ("a", "2.o"), ("b", "as-long.o")]);
    }

    #[test]
    fn folders_have_a_name_or_hold_some() {
        let dir = tree(&[("x/1.o", ""), ("file", "")]);
        let text = dir.path().to_str().expect("a plain path");
        let check = |argument: &str, expected: &[(&str, &str)]| {
            let folder = |&(origin, dir): &(&str, &str)| {
                let origin = origin.to_owned();
                Folder { origin, dir: text.parse::<PathBuf>().expect("a path").join(dir) }
            };
            let expected: Vec<_> = expected.iter().map(folder).collect();
            assert_eq!(folders(argument).ok(), Some(expected), "{argument}");
        };
        check(text, &[("x", "x")]);
        check(&format!("mine={text}/x"), &[("mine", "x")]);
        check(&format!("{text}/x"), &[]);
        assert!(folders(&format!("{text}/none")).is_err());
    }
}
