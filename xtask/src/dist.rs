//! `cargo xtask dist`: the files of a release, and a trial of them. `xtask/dist/dist.sh` does the work, and
//! `xtask/dist/test` tests it.

use std::process::Command;

use xtask::command::{Steps, cargo, repository, without_package};

/// Builds and packs a release; or checks the packages of one.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let out = repository().join("target/dist");
    let verbs: &[&str] = if check { &["check"] } else { &["build", "pack"] };
    let mut steps = Steps::default();
    for verb in verbs {
        let mut script = Command::new("bash");
        without_package(&mut script);
        script.args(["xtask/dist/dist.sh", verb]).arg(&out);
        script.env("VERSION", env!("CARGO_PKG_VERSION")).env("CARGO", cargo().get_program());
        steps.run(&mut script)?;
    }
    Ok(())
}
