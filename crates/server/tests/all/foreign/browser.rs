//! Tests each page in a real browser: Debian's chromium, driven by playwright-core, with axe-core, which `cargo xtask setup`
//! installs.
//! `pages.mjs` has the checks.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Server, invented};

/// Days of history: enough for changes of level on both sides.
const DAYS: i64 = 90;

/// Install paths of distributions.
const BROWSERS: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

fn modules() -> PathBuf {
    folder().join("node_modules")
}

/// A missing test dependency, and how to get it.
fn missing() -> Option<&'static str> {
    let runs = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !BROWSERS.iter().any(|path| Path::new(path).exists()) {
        Some("chromium is not installed")
    } else if !runs("node") {
        Some("node is not installed")
    } else if ["playwright-core", "axe-core"].iter().any(|it| !modules().join(it).exists()) {
        Some("playwright-core or axe-core is not installed in crates/server/tests/browser")
    } else {
        None
    }
}

#[test]
fn pages_in_a_browser() -> Result<(), Box<dyn Error>> {
    if let Some(missing) = missing() {
        assert!(env::var_os("CI").is_none(), "{missing}: `cargo xtask setup` installs it");
        eprintln!("skipped: {missing}; `cargo xtask setup` installs it");
        return Ok(());
    }
    let server = Server::start()?;
    let invitation = server.runtime.block_on(async {
        invented::article(&server.app, DAYS).await?;
        invented::trials(&server.app).await?;
        invented::invitation(&server.app).await
    })?;
    let browser = BROWSERS.iter().find(|path| Path::new(path).exists());
    let status = Command::new("node")
        .arg(folder().join("pages.mjs"))
        .arg(server.url())
        .arg(invitation)
        .env("BROWSER", browser.copied().unwrap_or_default())
        .status()?;
    assert!(status.success(), "pages.mjs found something, see above");
    Ok(())
}
