//! What a server is told at its start.

use std::{net::SocketAddr, path::PathBuf};

/// The port that the `bencher` client's own server has, so that scripts go on working.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:6610";

/// What a server is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Folder with the databases.
    pub data: PathBuf,
    /// Where people and clients reach the server, without a slash at the end. All links begin with it.
    pub public_url: String,
    /// Reverse proxies in front of the server: so many entries of `X-Forwarded-For` are believed, from the
    /// right.
    pub proxies: usize,
    /// Bytes of a request's body at most, unpacked.
    pub body_bytes_max: usize,
    /// Whether results are taken from whoever reaches the server, without a key.
    pub allow_anonymous_runs: bool,
}

impl Settings {
    /// Settings for a folder, with the defaults of everything else.
    pub fn of(data: impl Into<PathBuf>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 6610));
        Self {
            listen,
            data: data.into(),
            public_url: format!("http://{listen}"),
            proxies: 0,
            // As Bencher's server has it (lib/bencher_config, 0.6.12).
            body_bytes_max: 4 << 20,
            allow_anonymous_runs: false,
        }
    }
}
