//! Pages of pushed profiles: a project's services, one service over a time range, and a comparison of two time ranges
//! or label sets.
//!
//! `range` and `choice` parse addresses; `figures` formats values; `timeline` draws time.

mod choice;
mod compare;
mod download;
mod figures;
mod range;
mod service;
mod services;
mod timeline;

pub(super) use self::{
    compare::show as compare,
    download::{flame, pprof},
    service::show as service,
    services::list,
};
