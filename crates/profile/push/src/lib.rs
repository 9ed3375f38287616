//! Hands windows of profiles to engines that keep profiles, and keeps them on disk.
//!
//! A [`Window`] is what was sampled in some seconds, a gzip'd pprof for each set of labels. It takes two ways:
//!
//! ```text
//!          ┌→ Pusher: inbox → spool → encode → http → judge → counted
//! Window ──┤                   ↑________ back-off ______|
//!          └→ Ring: a folder for each window, the oldest removed
//! ```
//!
//! A [`Pusher`] has a thread for one [`Target`]. [`encode()`] is pure: a window becomes a request of Pyroscope's, of
//! OpenTelemetry's or of Parca's protocol; our own server takes that of Pyroscope. `http.rs` alone speaks to the
//! network, and `judge.rs` decides what an answer means. What waits for an engine lies in `spool.rs`, on disk if it has a folder, and outlives the process.
//!
//! [`intake`] is the other end: it reads what our own server is pushed.
//!
//! Nothing is lost without being counted ([`Counts`]). Delivery is at least once: an answer that was cut off leaves
//! unknown whether the window arrived, so it is sent again, with the same identifiers.

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
