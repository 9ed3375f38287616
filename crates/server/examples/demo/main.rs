//! A server with a year of made-up history for demonstration: `cargo xtask demo-serve`.
//!
//! Everything is invented: commits, machines and figures. The history has realistic features: noise, a newer kernel
//! that slows everything down, a regression that is fixed, branches, dismissed alerts.

mod invented;

use std::{error::Error, net::SocketAddr};

use tokio::net::TcpListener;
use wingbeat_server::{App, service::serve, settings::Settings};

/// Days of history.
const DAYS: i64 = 365;

const USAGE: &str = "usage: demo [--listen ADDRESS:PORT] [--days N] [--trials]";

/// Command-line options.
struct Wishes {
    listen: SocketAddr,
    days: i64,
    /// Whether to include the test projects.
    has_trials: bool,
}

fn wishes(mut arguments: impl Iterator<Item = String>) -> Result<Wishes, Box<dyn Error>> {
    let listen = SocketAddr::from(([127, 0, 0, 1], 6610));
    let mut wishes = Wishes { listen, days: DAYS, has_trials: false };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--trials" => wishes.has_trials = true,
            "--listen" => wishes.listen = arguments.next().ok_or(USAGE)?.parse()?,
            "--days" => wishes.days = arguments.next().ok_or(USAGE)?.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(wishes)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let wishes = wishes(std::env::args().skip(1))?;
    let listener = TcpListener::bind(wishes.listen).await?;
    let listen = listener.local_addr()?;
    let public_url = format!("http://{listen}");
    // Removed when the server has stopped.
    let folder = tempfile::tempdir()?;
    let settings = Settings { listen, public_url, ..Settings::of(folder.path()) };
    let app = App::open(settings)?;
    invented::article(&app, wishes.days).await?;
    if wishes.has_trials {
        invented::trials(&app).await?;
    }
    println!("http://{listen}/perf/fun-xdp");
    println!("To change something, become its admin: {}", invented::invitation(&app).await?);
    let stop = async {
        // If waiting for the signal fails, the program ends.
        let _ = tokio::signal::ctrl_c().await;
    };
    println!("Ctrl-C stops it; nothing is kept.");
    serve(app, listener, stop).await;
    Ok(())
}
