//! Profiles a machine all the time.
//!
//! A window of samples ([`wingbeat_profile::session::Continuous`]) is divided by who was sampled: by container or
//! unit of systemd, and by executable (`origin`, `labels`). Of each set of labels one profile is made (`divide`), for
//! [`wingbeat_push`] to hand over and keep. `governor` holds the agent to a share of a CPU.

mod divide;
mod governor;
mod labels;
mod metrics;
mod origin;
mod own;
mod run;

pub use metrics::Metrics;
pub use own::OwnUse;
pub use run::{AgentError, AgentOptions, Notice, Sinks, run};
