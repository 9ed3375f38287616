//! Pushes windows of profiles to backends, and stores them on disk.
//!
//! A [`Window`] is a recording of some seconds, with a gzip'd pprof for each label set. It has two destinations:
//!
//! ```text
//!          ┌→ Pusher: inbox → spool → encode → http → judge → counted
//! Window ──┤                   ↑________ back-off ______|
//!          └→ Ring: a folder for each window, the oldest removed
//! ```
//!
//! A [`Pusher`] has a thread for one [`Target`]. [`encode()`] is pure: it converts a window to a request of the
//! Pyroscope, OpenTelemetry or Parca protocol; our own server accepts Pyroscope's. Only `http.rs` uses the
//! network, and `judge.rs` classifies responses. Windows that wait for a backend are in `spool.rs`, on disk if it
//! has a folder, where they survive the process.
//!
//! [`intake`] is the receiving end: it parses profiles pushed to our own server.
//!
//! Every lost window is counted ([`Counts`]). Delivery is at least once: after a truncated response it is unknown
//! whether the window arrived, so it is sent again, with the same identifiers.

mod backoff;
mod credentials;
mod encode;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod http;
pub mod intake;
mod judge;
mod lock;
mod pattern;
mod pusher;
mod ring;
mod spool;
mod target;
mod window;

pub use backoff::Backoff;
pub use credentials::{Credentials, CredentialsError};
pub use encode::{EncodeError, Request, encode, pyroscope};
pub use error::FolderError;
pub use pattern::Pattern;
pub use pusher::{Counts, PushOptions, Pusher};
pub use ring::{Entry, Listing, Ring};
pub use target::{Protocol, Target, TargetError};
pub use window::{Kind, Series, Window};
