//! Tests each page in a real browser: Debian's chromium, driven by playwright-core, which `cargo xtask setup` installs.
//! `pages.mjs` has the checks.

#[path = "../../examples/demo/invented/mod.rs"]
mod invented;
mod pictures;

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Command,
};

use tokio::{net::TcpListener, sync::oneshot};
use wingbeat_server::{App, service::serve, settings::Settings};

/// Days of history: enough for changes of level on both sides.
const DAYS: i64 = 90;

/// Install paths of distributions.
const BROWSERS: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// A missing test dependency, and how to get it.
fn missing() -> Option<&'static str> {
    let runs = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !BROWSERS.iter().any(|path| Path::new(path).exists()) {
        Some("chromium is not installed")
    } else if !runs("node") {
        Some("node is not installed")
    } else if !folder().join("node_modules/playwright-core").exists() {
        Some("playwright-core is not installed in crates/server/tests/browser")
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let temporary = tempfile::tempdir()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (address, invitation) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let listen = listener.local_addr()?;
        let public_url = format!("http://{listen}");
        let settings = Settings { listen, public_url, ..Settings::of(temporary.path()) };
        let app = App::open(settings)?;
        invented::article(&app, DAYS).await?;
        invented::trials(&app).await?;
        let invitation = invented::invitation(&app).await?;
        let stopped = async { stopped.await.unwrap_or_default() };
        tokio::spawn(serve(app, listener, stopped));
        Ok::<_, Box<dyn Error>>((listen, invitation))
    })?;
    let browser = BROWSERS.iter().find(|path| Path::new(path).exists());
    let status = Command::new("node")
        .arg(folder().join("pages.mjs"))
        .arg(format!("http://{address}"))
        .arg(invitation)
        .env("BROWSER", browser.copied().unwrap_or_default())
        .status()?;
    // The server may have stopped by itself.
    let _ = stop.send(());
    assert!(status.success(), "pages.mjs found something, see above");
    Ok(())
}
