//! Flags of `wingbeat agent`.

use std::{net::SocketAddr, ops::Bound, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args};
use wingbeat_agent::Target;

use crate::{
    profile::unwind_bytes,
    values::{duration, large_bytes, share_within},
};

/// Flags of `wingbeat agent`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sink").required(true).multiple(true).args(["push", "keep"]))]
pub(crate) struct AgentArgs {
    /// Push to an engine; repeatable: wingbeat=URL (our own server), pyroscope=URL, parca=URL, otlp=URL (experimental)
    #[arg(long, value_name = "ENGINE=URL")]
    pub push: Vec<Target>,
    /// Keep pprof files in DIR
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Maximum age of the files
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    pub keep_for: Duration,
    /// Maximum size of the files; the oldest are removed first
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = large_bytes)]
    pub keep_size: u64,
    /// Samples per second and CPU. 19 rather than 20 avoids running in step with timers
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 19)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub frequency: u64,
    /// Record time off the CPU too: of each thread, the blocks of MIN_TIME or more
    #[arg(long, value_name = "MIN_TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1ms", value_parser = duration)]
    pub off_cpu: Option<Duration>,
    /// Sample page faults too, one in N: where memory grows
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "64", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub pages: Option<u64>,
    /// Time that one profile covers, 1s to 10m
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = window)]
    pub window: Duration,
    /// Stop after this time [default: never]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// File with the token for the engines, or NAME:PASSWORD [env: WINGBEAT_PUSH_TOKEN holds the token itself]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Send the token unencrypted over http to other machines, too
    #[arg(long)]
    pub token_over_http: bool,
    /// Tenant, sent as X-Scope-OrgID [env: WINGBEAT_PUSH_TENANT]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Folder for windows that an engine has not accepted yet [default: kept in memory]
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// Maximum size of windows waiting for each engine; the oldest are dropped first
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = large_bytes)]
    pub spool_size: u64,
    /// Share of one CPU; the agent lowers its sampling rate to stay below it
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = cpu_share)]
    pub max_cpu: f64,
    /// Memory above which caches are freed
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = large_bytes)]
    pub max_memory: u64,
    /// Kernel memory for unwind tables, 1M to 64M
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = unwind_bytes)]
    pub unwind_memory: u64,
    /// Serve the agent's own metrics for Prometheus here, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// Rules for labels and for samples to drop [default: /etc/wingbeat/agent.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ask the kubelet for the names of pods, such as https://$NODE_IP:10250
    #[arg(long, value_name = "URL")]
    pub kubelet: Option<String>,
    /// File with the token for the kubelet [default: that of the service account, if it exists]
    #[arg(long, value_name = "FILE", requires = "kubelet")]
    pub kubelet_token_file: Option<PathBuf>,
    /// File with the certificates that verify the kubelet [default: that of the service account, if it exists]
    #[arg(long, value_name = "FILE", requires = "kubelet")]
    pub kubelet_ca_file: Option<PathBuf>,
    /// Do not verify the kubelet: its certificate is often self-signed
    #[arg(long, requires = "kubelet", conflicts_with = "kubelet_ca_file")]
    pub kubelet_insecure: bool,
    /// Folder for function names, by build ID, so that files are not read again after a restart
    /// [default: $CACHE_DIRECTORY, or wingbeat/names in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    pub names: Option<PathBuf>,
    /// Maximum size of the function names; the least recently used are removed first
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = large_bytes)]
    pub names_size: u64,
    /// Name of this machine [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub host_name: Option<String>,
}

fn window(text: &str) -> Result<Duration, String> {
    let window = duration(text)?;
    match (Duration::from_secs(1)..=Duration::from_secs(600)).contains(&window) {
        true => Ok(window),
        false => Err("the time must be from 1s to 10m".to_owned()),
    }
}

fn cpu_share(text: &str) -> Result<f64, String> {
    share_within(text, (Bound::Excluded(0.0), Bound::Included(6400.0)))
}
