//! HTML pages: rendered on the server, with links and forms. Only zooming requires a script.
//!
//!
//! ```text
//! address → context, parameters → data → page
//! ```
//!
//! - `context`, `links`: the visitor, the project, and the addresses of its pages, with readable names.
//! - `data`: page contents, read from the database.
//! - `layout`, `parts`, `spark`, `flame`: shared parts of pages. `assets`: style and scripts.
//! - The others: one or two pages each.
//!
//! Each page of a project has two addresses, because the `bencher` client prints both: one for public projects and one
//! for the others. `failure` renders errors as pages.

mod accounts;
mod alert;
mod alerts;
mod assets;
mod badge;
mod cause;
mod choice;
mod compare;
mod components;
mod entities;
pub(crate) mod failure;
mod flame;
mod keys;
mod layout;
mod links;
mod page_context;
mod pins;
mod plot;
mod profiles;
mod projects;
mod report;
mod reports;
mod series;
mod settings;
mod thresholds;

use axum::{
    handler::Handler,
    http::Method,
    routing::{MethodRouter, get, post},
};

use crate::{
    App,
    access::{Right, Route},
    database::Kind,
};

/// Both addresses of a project page.
macro_rules! both {
    ($tail:literal) => {
        [concat!("/perf/{project}", $tail), concat!("/console/projects/{project}", $tail)]
    };
}

/// All pages.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::page(Method::GET, "/", Right::Open, get(projects::list)),
        Route::page(Method::GET, "/perf", Right::Open, get(projects::list)),
        Route::page(Method::GET, "/console/projects", Right::Open, get(projects::list)),
        Route::page(Method::GET, "/assets/{name}", Right::Open, get(assets::serve)),
        // Address of the plot in the client's private links.
        Route::page(Method::GET, "/console/projects/{project}/perf", Right::Read, get(plot::show)),
    ];
    read(&mut routes, both!(""), series::show);
    read(&mut routes, both!("/plot"), plot::show);
    read(&mut routes, both!("/embed"), plot::embed);
    read(&mut routes, both!("/plots"), pins::list);
    read(&mut routes, both!("/plots/{plot}"), pins::open);
    read(&mut routes, both!("/badge.svg"), badge::show);
    read(&mut routes, both!("/reports"), reports::list);
    read(&mut routes, both!("/reports/{report}"), report::show);
    read(&mut routes, both!("/compare"), compare::ask);
    read(&mut routes, both!("/compare/{sides}"), compare::show);
    read(&mut routes, both!("/compare/{sides}/cause"), compare::cause);
    read(&mut routes, both!("/compare/{sides}/cause/{picture}"), compare::picture);
    read(&mut routes, both!("/alerts"), alerts::list);
    read(&mut routes, both!("/alerts/{alert}"), alert::show);
    read(&mut routes, both!("/alerts/{alert}/cause/{picture}"), alert::picture);
    of_entities(&mut routes, Kind::Benchmark, both!("/benchmarks"), both!("/benchmarks/{name}"));
    of_entities(&mut routes, Kind::Measure, both!("/measures"), both!("/measures/{name}"));
    of_entities(&mut routes, Kind::Branch, both!("/branches"), both!("/branches/{name}"));
    of_entities(&mut routes, Kind::Testbed, both!("/testbeds"), both!("/testbeds/{name}"));
    write(&mut routes, both!("/alerts"), Right::Write, alerts::dismiss);
    write(&mut routes, both!("/alerts/{alert}"), Right::Write, alert::settle);
    read(&mut routes, both!("/profiles"), profiles::list);
    read(&mut routes, both!("/profiles/{service}"), profiles::service);
    read(&mut routes, both!("/profiles/{service}/compare"), profiles::compare);
    read(&mut routes, both!("/profiles/{service}/profile.pb.gz"), profiles::pprof);
    read(&mut routes, both!("/profiles/{service}/flame.svg"), profiles::flame);
    read(&mut routes, both!("/thresholds"), thresholds::list);
    read(&mut routes, both!("/thresholds/{threshold}"), thresholds::show);
    for path in both!("/thresholds/add") {
        routes.push(Route::page(Method::GET, path, Right::Write, get(thresholds::add)));
    }
    write(&mut routes, both!("/thresholds"), Right::Write, thresholds::create);
    write(&mut routes, both!("/thresholds/{threshold}"), Right::Write, thresholds::change);
    let manage = Right::Manage;
    write(&mut routes, both!("/thresholds/{threshold}/remove"), manage, thresholds::remove);
    let managed =
        |page: MethodRouter<App>| move |path| Route::page(Method::GET, path, manage, page.clone());
    routes.extend(both!("/settings").map(managed(get(settings::show))));
    routes.extend(both!("/keys").map(managed(get(keys::list))));
    write(&mut routes, both!("/reports/{report}/withdraw"), manage, report::withdraw);
    write(&mut routes, both!("/plots"), manage, pins::create);
    write(&mut routes, both!("/plots/{plot}/remove"), manage, pins::remove);
    write(&mut routes, both!("/settings"), manage, settings::save);
    write(&mut routes, both!("/delete"), Right::Admin, settings::delete);
    write(&mut routes, both!("/keys"), manage, keys::create);
    write(&mut routes, both!("/keys/{key}/revoke"), manage, keys::revoke);
    routes.extend(accounts::routes());
    routes
}

/// The list of a kind of entity, and the page of each.
fn of_entities(
    routes: &mut Vec<Route>,
    kind: Kind,
    all: [&'static str; 2],
    one: [&'static str; 2],
) {
    read(routes, all, move |context, params| entities::list(context, params, kind));
    read(routes, one, move |context, path| entities::one(context, path, kind));
    let change = move |context, path, form| entities::change(context, path, form, kind);
    write(routes, one, Right::Write, change);
}

/// A page visible to everyone who may read the project.
fn read<H, T>(routes: &mut Vec<Route>, paths: [&'static str; 2], page: H)
where
    H: Handler<T, App>,
    T: 'static,
{
    let route = |path| Route::page(Method::GET, path, Right::Read, get(page.clone()));
    routes.extend(paths.map(route));
}

/// The target of a form.
fn write<H, T>(routes: &mut Vec<Route>, paths: [&'static str; 2], right: Right, action: H)
where
    H: Handler<T, App>,
    T: 'static,
{
    let route = |path| Route::page(Method::POST, path, right, post(action.clone()));
    routes.extend(paths.map(route));
}
