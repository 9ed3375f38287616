//! Continuous profiling of a machine.
//!
//! A window of samples ([`wingbeat_profiler::session::Continuous`]) is divided by origin: by container or systemd
//! unit, and by executable (`origin`, `labels`). The origin of exited processes comes from their cgroup
//! (`cgroups`). The kubelet provides pod names (`pods`; only `kubelet` sends requests), and `rules` take
//! precedence. Each label set gets one profile (`divide`), for [`wingbeat_push`] to push and store. `governor`
//! keeps the agent below a CPU share.

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
