//! The server process: opens, listens, announces itself, and stops on a signal.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    time::Duration,
};

use anyhow::{anyhow, ensure};
use time::OffsetDateTime;
use tokio::{
    net::TcpListener,
    runtime,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::EnvFilter;

use super::{idle, serve};
use crate::{
    App,
    access::{INVITE_LIFETIME, digest, random_text},
    profiles::ProfilesPlace,
    settings::{DataLocation, Settings},
    storage::{Claim, Storage},
};

/// Threads that serve requests. Database are read on separate threads.
const THREADS_MAX: usize = 4;

/// Logs JSON lines to stderr. `WINGBEAT_LOG` sets the filter, as `warn` or `debug`.
pub fn log_to_stderr() {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::Level::INFO.into())
        .with_env_var("WINGBEAT_LOG")
        .from_env_lossy();
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter);
    // A second server of a process shares the first one's log.
    let _ = subscriber.with_writer(io::stderr).try_init();
}

/// Serves until SIGTERM or SIGINT. `announce` receives the link that creates the first admin, if there is no user.
pub fn run(mut settings: Settings, announce: impl Fn(&str)) -> anyhow::Result<()> {
    idle::stay_small();
    // A folder has one server; a database may have several, which take turns to write.
    let mut claim = match &settings.location {
        DataLocation::Folder(folder) => Some(Claim::of(folder)?),
        DataLocation::Postgres { .. } => None,
    };
    let storage = Storage::open(&settings.location)?;
    let database = crate::storage::open(&settings.location)?;
    let has_users = database.has_users()?;
    let address = settings.listen;
    ensure!(
        has_users || address.ip().is_loopback(),
        "there is no user yet, and others can reach {address}: create an admin first with `wingbeat serve user \
         add EMAIL --role admin`, or listen on 127.0.0.1"
    );
    let listen = |error| {
        anyhow!("cannot listen on {address}: {error}; choose another address with --listen")
    };
    let listener = StdListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    if settings.public_url == format!("http://{address}") {
        // Replaces port 0 by the actual one.
        settings.public_url = format!("http://{bound}");
    }
    // Without the announcement, commands use the configured URL for links.
    match &mut claim {
        Some(claim) => drop(claim.announce(&settings.public_url)),
        None => database.set_public_url(&settings.public_url)?,
    }
    warn_of_plain_http(&settings);
    let app = App::of(settings, storage);
    if let ProfilesPlace::Bucket { .. } = app.settings.profiles_place {
        // A wrong name or key must not be noticed at the first push.
        app.profiles.check()?;
    }
    if !has_users {
        let (secret, now) = (random_text()?, OffsetDateTime::now_utc());
        database.create_invite(None, &digest(&secret), now, now + INVITE_LIFETIME)?;
        announce(&format!("{}/auth/invite/{secret}", app.settings.public_url));
    }
    drop(database);
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(THREADS_MAX);
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(ended)?;
    let served = runtime.block_on(answer(app.clone(), listener, bound));
    runtime.shutdown_timeout(Duration::from_secs(5));
    // Dropping the last handle of the database waits for the writer.
    drop(app);
    tracing::info!("stopped");
    served.map_err(ended)
}

fn ended(error: io::Error) -> anyhow::Error {
    anyhow!("the server ended: {error}")
}

async fn answer(app: App, listener: StdListener, bound: SocketAddr) -> io::Result<()> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let listener = TcpListener::from_std(listener)?;
    let url = app.settings.public_url.clone();
    tracing::info!(address = %bound, %url, data = %app.settings.location, "listening");
    serve(app, listener, stop).await;
    Ok(())
}

/// Warns if passwords and cookies are sent over plain HTTP.
fn warn_of_plain_http(settings: &Settings) {
    let host = settings.public_url.strip_prefix("http://");
    let is_local =
        |host: &str| ["127.", "localhost", "[::1]"].iter().any(|it| host.starts_with(it));
    if host.is_some_and(|host| !is_local(host)) {
        tracing::warn!(
            "the public URL has no TLS, so passwords, cookies and keys can be read on the network: put a reverse \
             proxy with TLS in front of the server, and set an https:// public URL"
        );
    }
}
