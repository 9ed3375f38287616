//! Continuous profiling of a machine.
//!
//! ```text
//! window of samples → divide (by labels) → Pusher: inbox → spool → encode → HTTP → response → counted
//!                                        │                ↑________ back-off ________|
//!                                        └→ WindowArchive: a folder for each window, the oldest removed
//! ```
//!
//! A window of samples ([`wingbeat_profiler::session::Continuous`]) is divided by origin: by container or systemd
//! unit, and by executable (`origin`, `labels`). The origin of exited processes comes from their cgroup
//! (`cgroups`). The kubelet provides pod names (`pods`, `kubelet`), and `rules` take precedence. Each label set gets
//! one profile (`divide`), gzip'd pprof. `governor` keeps the agent below a CPU share.
//!
//! A [`Pusher`] has a thread for one [`Target`]. [`encode()`] is pure: it converts a [`Window`] to a request of the
//! Pyroscope, OpenTelemetry or Parca protocol; our own server accepts Pyroscope's. `response` classifies responses.
//! Windows that wait for a backend are in `spool`, on disk if it has a folder, where they survive the process.
//!
//! Every lost window is counted ([`Counts`]). Delivery is at least once: after a truncated response it is unknown
//! whether the window arrived, so it is sent again, with the same identifiers.

mod backoff;
mod cgroups;
mod credentials;
mod divide;
mod encode;
mod facts;
mod folder;
mod governor;
mod kubelet;
mod labels;
mod metrics;
mod origin;
mod pattern;
mod pods;
mod pusher;
mod response;
mod rules;
mod run;
mod spool;
mod target;
mod window;
mod window_archive;

pub use credentials::Credentials;
pub use encode::{Request, encode};
pub use governor::OwnUse;
pub use kubelet::{Kubelet, KubeletOptions};
pub use metrics::Metrics;
pub use pattern::Pattern;
pub use pusher::{Counts, PushOptions, Pusher};
pub use rules::Rules;
pub use run::{AgentOptions, Notice, Sinks, run};
pub use target::{Protocol, Target};
pub use window::{Kind, Series, Window};
pub use window_archive::{Entry, Listing, WindowArchive};

/// Entry points for the fuzz targets (`fuzz/` at the root), which see only public items. Not part of the API.
#[doc(hidden)]
pub mod fuzzing {
    use std::path::Path;

    /// The kubelet's document `/pods`.
    pub fn kubelet_pods(bytes: &[u8]) {
        crate::pods::fuzz(bytes);
    }

    /// A spool file, as is and with a corrected checksum: the result must serialize to the same bytes.
    pub fn spool_file(bytes: &[u8]) {
        crate::spool::fuzz(bytes);
    }

    /// The name of a window's folder on one line, and its `labels.json`.
    pub fn window_archive(bytes: &[u8]) {
        let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (name, labels) = bytes.split_at(at);
        let name = String::from_utf8_lossy(name);
        crate::window_archive::fuzz(Path::new(&*name), labels.get(1..).unwrap_or_default());
    }
}
