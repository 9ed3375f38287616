//! Profiles a machine all the time.
//!
//! A window of samples ([`wingbeat_profile::session::Continuous`]) is divided by who was sampled: by container or
//! unit of systemd, and by executable (`origin`, `labels`); of who is gone, its control group tells (`cgroups`). Pods have names by the kubelet (`pods`; only `kubelet`
//! speaks to it), and `rules` have the last word. Of each set of labels one profile is made (`divide`), for
//! [`wingbeat_push`] to hand over and keep. `governor` holds the agent to a share of a CPU.

mod cgroups;
mod divide;
#[doc(hidden)]
pub mod fuzzing;
mod governor;
mod kubelet;
mod labels;
mod metrics;
mod origin;
mod own;
mod pods;
mod rules;
mod run;
mod value;

pub use kubelet::{Kubelet, KubeletError, KubeletOptions};
pub use metrics::Metrics;
pub use own::OwnUse;
pub use rules::{Rules, RulesError};
pub use run::{AgentError, AgentOptions, Notice, Sinks, run};
