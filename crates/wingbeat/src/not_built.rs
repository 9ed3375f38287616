//! Error messages of a build without the feature `server`, such as that of `cargo xtask demo`.

use std::{ffi::OsString, process::ExitCode};

use anyhow::bail;

/// Any words: they are not understood here.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct NotBuilt {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Fails with a message about how to get a build that has it.
pub(crate) fn refuse(what: &str) -> anyhow::Result<ExitCode> {
    bail!(
        "this wingbeat was built without its server, which `{what}` needs; `cargo build --release -p wingbeat` \
         builds all of it"
    )
}
