//! The server, asked through its router or on loopback. Tests in `access` and `api` run on both engines.

/// Authentication and authorization.
mod access {
    mod bounds;
    mod invitations;
    mod keys;
    mod profiles;
    mod rights;
    mod sign_in;
}
/// The API as the `bencher` client sees it: typed responses and errors of each route.
mod api {
    mod alerts;
    mod console;
    mod entities;
    mod perf;
    mod plots;
    mod projects;
    mod reports;
    mod run;
    mod thresholds;
}
mod foreign;
mod native;
mod place;
mod shared;
mod stops;
mod support;
