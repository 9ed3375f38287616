//! Pages of pushed profiles: the services of a project, one of them in a time, and two times or sets of labels beside
//! each other.
//!
//! `range` and `choice` say what an address asks for; `figures` writes values; `timeline` draws time.

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
