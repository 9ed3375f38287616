//! `wingbeat export --host` and `wingbeat import --host`: synchronizes a store with a wingbeat server.

use std::{env, process::ExitCode, time::Duration};

use anyhow::bail;
use wingbeat_text::plural;
use wingbeat_track::{
    model::ProjectName,
    remote::{Exchanged, Host, Key, Patience},
    store::Store,
};

use crate::{
    run::tell_retry,
    shell::{error, message, warning},
    store::{StoreArgs, check},
};

/// Time limit of a request with all retries.
const TOTAL: Duration = Duration::from_mins(5);

const ATTEMPTS: u32 = 10;

/// Which server, and what of it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerArgs {
    /// wingbeat server, instead of PATH
    #[arg(long, value_name = "URL")]
    pub(super) host: Option<String>,
    /// Only this project [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) project: Option<ProjectName>,
    /// Key for the server [env: WINGBEAT_API_KEY, BENCHER_API_KEY]
    #[arg(long, value_name = "KEY", requires = "host")]
    key: Option<String>,
}

impl ServerArgs {
    fn host(&self) -> anyhow::Result<Host> {
        let key = match &self.key {
            Some(text) => Some(Key::new(text)?),
            None => Key::from_env(|name| env::var(name).ok())?,
        };
        let patience = Patience { attempts: ATTEMPTS, total: TOTAL, ..Patience::default() };
        let url = self.host.clone().unwrap_or_default();
        let host = Host { url, key, has_public_links: false, patience };
        if !host.is_wingbeat() {
            bail!(
                "{} is not a wingbeat server, or does not respond; other servers do not exchange whole reports",
                host.url
            );
        }
        Ok(host)
    }
}

/// Sends entries that the server lacks.
pub(super) fn push(args: &ServerArgs, store: &Store, quiet: bool) -> anyhow::Result<ExitCode> {
    let host = args.host()?;
    let mut projects = store.projects()?;
    if let Some(project) = &args.project {
        check("project", project, &projects, store)?;
        projects = vec![project.clone()];
    }
    let mut all = Exchanged::default();
    for project in &projects {
        add(&mut all, host.push(store, project, &mut |retry| tell_retry(retry, quiet))?);
    }
    Ok(tell(&all, &format!("sent {} to {}", documents(all.new), host.url), quiet))
}

/// Fetches entries that the store lacks.
pub(super) fn pull(args: &ServerArgs, store: &StoreArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let host = args.host()?;
    let mut on_retry = |retry: &_| tell_retry(retry, quiet);
    let projects = match &args.project {
        Some(project) => vec![project.to_string()],
        None => host.projects(&mut on_retry)?,
    };
    let mut store = store.open_or_make()?;
    let mut all = Exchanged::default();
    for project in &projects {
        add(&mut all, host.pull(&mut store, project, &mut on_retry)?);
    }
    let into = store.path().display();
    Ok(tell(&all, &format!("fetched {} from {} into {into}", documents(all.new), host.url), quiet))
}

fn add(all: &mut Exchanged, one: Exchanged) {
    all.new += one.new;
    all.already_there += one.already_there;
    all.refused.extend(one.refused);
    all.damaged.extend(one.damaged);
}

/// Prints the outcome. Missing entries make the exit code 1.
fn tell(all: &Exchanged, what: &str, quiet: bool) -> ExitCode {
    for refused in &all.refused {
        warning!("{} was refused: {}", refused.uuid, refused.reason);
    }
    for damaged in &all.damaged {
        let report = damaged.report.unwrap_or_default();
        error!("{report} is damaged and was left out: {}", damaged.what);
    }
    if !quiet {
        message!("{what}; {} already there", documents(all.already_there));
    }
    let is_whole = all.refused.is_empty() && all.damaged.is_empty();
    if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn documents(count: usize) -> String {
    plural(count, "document")
}
