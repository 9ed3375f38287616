//! Test programs, in execution order.

use std::path::PathBuf;

use crate::{
    built::{Artifact, build_tests},
    vm::kernel_programs,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// For display, `wingbeat/recordings`.
    pub(super) name: String,
    /// Folder of its package, in which cargo would run it.
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
    /// Whether its tests load programs into the kernel and mostly wait.
    pub(super) is_of_kernel: bool,
}

/// Builds the tests. Kernel tests come first, the longest ones leading.
pub(super) fn build(arguments: &[&str]) -> anyhow::Result<Vec<Program>> {
    // In guests, the quick ones come first.
    let mut of_kernel: Vec<String> = kernel_programs().collect();
    of_kernel.reverse();
    let artifacts = build_tests(arguments.iter().copied())?.into_iter();
    Ok(in_order(artifacts.filter(|it| it.is_test), &of_kernel))
}

fn in_order(artifacts: impl Iterator<Item = Artifact>, of_kernel: &[String]) -> Vec<Program> {
    let place = |name: &str| of_kernel.iter().position(|it| it == name);
    let mut programs: Vec<_> = artifacts
        .map(|it| Program {
            name: it.name(),
            is_of_kernel: place(&it.name()).is_some(),
            folder: it.folder,
            path: it.program,
        })
        .collect();
    programs.sort_by_key(|program| place(&program.name).unwrap_or(usize::MAX));
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_kernel_come_first() {
        let artifact = |folder: &str, target: &str| Artifact {
            folder: folder.into(),
            target: target.to_owned(),
            kind: "test".to_owned(),
            is_test: true,
            program: "/t/a".into(),
        };
        let built = [("/r/track", "store"), ("/r/wingbeat", "live"), ("/r/wingbeat", "heap")];
        let built = built.map(|(folder, target)| artifact(folder, target)).into_iter();
        let of_kernel = ["wingbeat/heap".to_owned(), "wingbeat/live".to_owned()];
        let found = in_order(built, &of_kernel);
        let found: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.is_of_kernel)).collect();
        assert_eq!(
            found,
            [("wingbeat/heap", true), ("wingbeat/live", true), ("track/store", false)]
        );
    }
}
