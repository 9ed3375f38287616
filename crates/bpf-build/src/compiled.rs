//! Prebuilt kernel halves in the repository, so that building the user half needs no LLVM. `cargo
//! xtask kernel` compiles them; CI verifies that they are bit-identical.
//!
//! A digest next to them identifies the sources they were compiled from. It detects changes, but
//! does not protect against deliberate manipulation.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::KernelHalf;

/// File next to the objects with the digest of their sources.
pub const DIGEST: &str = "sources.digest";

/// Object file name of a kernel half for the registers of `arch`, such as `x86_64`.
pub fn object_name(binary: &str, arch: &str) -> String {
    format!("{binary}.{arch}.o")
}

/// Digest of a kernel half's sources, with paths relative to `root`; `None` if its folder is missing, as in a package.
pub fn sources_digest(half: KernelHalf<'_>, root: &Path) -> io::Result<Option<String>> {
    if !root.join(half.dir).is_dir() {
        return Ok(None);
    }
    let mut files = Vec::new();
    for part in half.sources() {
        collect(&root.join(&part), &part, &mut files)?;
    }
    files.sort();
    let mut hash = Fnv::new();
    for (name, path) in files {
        hash.add(name.as_os_str().as_encoded_bytes());
        hash.add(&fs::read(path)?);
    }
    Ok(Some(format!("{:032x}", hash.0)))
}

/// The prebuilt object for `arch`, if it exists and matches these sources.
pub(crate) fn object(half: KernelHalf<'_>, arch: &str) -> Option<PathBuf> {
    let folder = Path::new(half.compiled?);
    let object = folder.join(object_name(half.binary, arch));
    let is_current = match sources_digest(half, Path::new("")) {
        Ok(None) => true,
        Ok(Some(now)) => {
            fs::read_to_string(folder.join(DIGEST)).is_ok_and(|before| before.trim() == now)
        }
        Err(_) => false,
    };
    (is_current && object.is_file()).then_some(object)
}

fn collect(path: &Path, name: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    if path.is_file() {
        files.push((name.to_owned(), path.to_owned()));
    } else if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            collect(&entry.path(), &name.join(entry.file_name()), files)?;
        }
    }
    Ok(())
}

/// 128-bit FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct Fnv(u128);

impl Fnv {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds a text with its length, so that boundaries between texts matter.
    fn add(&mut self, bytes: &[u8]) {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 ^= u128::from(*byte);
            self.0 = self.0.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_names_and_contents() {
        let root = std::env::temp_dir().join(format!("wingbeat-digest-{}", std::process::id()));
        let half =
            KernelHalf { dir: "half", binary: "a", features: &[], shared: &[], compiled: None };
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        let digest = || sources_digest(half, &root).expect("readable");
        assert_eq!(digest(), None);
        write("half/src/main.rs", "fn main() {}");
        let first = digest();
        assert!(first.is_some());
        write("half/target/x", "no source");
        assert_eq!(digest(), first);
        write("half/src/a/b.rs", "");
        let second = digest();
        assert_ne!(second, first);
        write("half/src/a/b.rs", " ");
        assert_ne!(digest(), second);
        fs::remove_dir_all(&root).expect("removed");
    }
}
