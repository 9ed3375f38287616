//! The `/v0` API of the `bencher` client, version 0.6.
//!
//! In addition, `native` (`/v1`) exchanges whole documents, and `push` receives profiles.
//!
//! `endpoints` is the table of all routes: method, path, right, handler, and OpenAPI description.

mod accounts;
mod alerts;
pub(crate) mod names;
mod native;
mod perf;
mod plots;
mod projects;
pub(crate) mod push;
mod reports;
mod request;
mod run;
mod server;
pub mod shapes;
mod spec;
mod things;
mod thresholds;
mod view;

use axum::{
    http::Method,
    routing::{delete, get, patch, post, put},
};

use utoipa::openapi::schema::Type;

pub(crate) use self::run::notices_of;
use self::{request::Paging, shapes::*, spec::Endpoint, things::Shape};
use crate::access::{Right, Route};

/// All routes of the API.
pub fn routes() -> Vec<Route> {
    endpoints().into_iter().map(|endpoint| endpoint.route).collect()
}

/// Routes of `/v1` and of pushed profiles, which the OpenAPI document of the `bencher` API omits.
pub fn native_routes() -> Vec<Route> {
    let mut routes = native::routes();
    routes.extend(push::routes());
    routes
}

fn endpoints() -> Vec<Endpoint> {
    let mut all = of_server();
    all.extend(of_projects());
    all.extend(of_reports());
    all.extend(of_thresholds());
    all.extend(of_plots());
    all.extend(accounts::endpoints());
    all.extend(of_things::<JsonBranch>(
        "/v0/projects/{project}/branches",
        "/v0/projects/{project}/branches/{branch}",
    ));
    all.extend(of_things::<JsonTestbed>(
        "/v0/projects/{project}/testbeds",
        "/v0/projects/{project}/testbeds/{testbed}",
    ));
    all.extend(of_things::<JsonBenchmark>(
        "/v0/projects/{project}/benchmarks",
        "/v0/projects/{project}/benchmarks/{benchmark}",
    ));
    all.extend(of_things::<JsonMeasure>(
        "/v0/projects/{project}/measures",
        "/v0/projects/{project}/measures/{measure}",
    ));
    all
}

fn reads(
    path: &'static str,
    right: Right,
    handler: axum::routing::MethodRouter<crate::App>,
    summary: &str,
) -> Endpoint {
    Endpoint::new(Method::GET, path, right, handler, summary)
}

fn of_server() -> Vec<Endpoint> {
    let document = |path| {
        reads(path, Right::Open, get(spec::spec), "This document").answer_as(
            "application/json",
            Type::Object,
            "An OpenAPI document",
        )
    };
    vec![
        reads("/v0/server/version", Right::Open, get(server::version), "Get the version")
            .answer::<server::Version>(200, "The client's own version, and that of the server"),
        reads(
            "/v0/server/config/console",
            Right::Open,
            get(server::console),
            "Get the address of the pages",
        )
        .answer::<server::Console>(200, "The address"),
        document("/v0/server/spec"),
        document("/openapi.json"),
    ]
}

fn of_projects() -> Vec<Endpoint> {
    let one = "/v0/projects/{project}";
    let organization = "/v0/organizations/{organization}/projects";
    vec![
        reads("/v0/projects", Right::Open, get(projects::list), "List projects")
            .query::<Paging>()
            .query::<projects::Query>()
            .answer_list::<JsonProject>("The projects that the caller may read"),
        reads(one, Right::Read, get(projects::view), "View a project")
            .answer::<JsonProject>(200, "The project"),
        Endpoint::new(
            Method::PATCH,
            one,
            Right::Manage,
            patch(projects::update),
            "Change a project",
        )
        .body::<JsonUpdateProject>()
        .answer::<JsonProject>(200, "The changed project"),
        Endpoint::new(
            Method::DELETE,
            one,
            Right::Admin,
            delete(projects::delete),
            "Delete a project",
        )
        .answer_nothing(),
        reads(
            "/v0/projects/{project}/allowed/{permission}",
            Right::Read,
            get(projects::allowed),
            "Check a permission of the caller",
        )
        .answer::<JsonAllowed>(200, "Whether the caller has it"),
        reads(
            "/v0/organizations",
            Right::Open,
            get(projects::organizations),
            "List the one organization",
        )
        .answer_list::<JsonOrganization>("One organization"),
        reads(
            "/v0/organizations/{organization}",
            Right::Open,
            get(projects::organization),
            "View the organization",
        )
        .answer::<JsonOrganization>(200, "The organization"),
        reads(organization, Right::Open, get(projects::list_of_organization), "List projects")
            .query::<Paging>()
            .query::<projects::Query>()
            .answer_list::<JsonProject>("The projects that the caller may read"),
        Endpoint::new(
            Method::POST,
            organization,
            Right::Handler,
            post(projects::create),
            "Create a project",
        )
        .body::<JsonNewProject>()
        .answer::<JsonProject>(201, "The new project"),
    ]
}

fn of_reports() -> Vec<Endpoint> {
    let (all, one) = ("/v0/projects/{project}/reports", "/v0/projects/{project}/reports/{report}");
    let alert = "/v0/projects/{project}/alerts/{alert}";
    vec![
        Endpoint::new(Method::POST, "/v0/run", Right::Handler, post(run::run), "Send results")
            .body::<JsonNewRun>()
            .answer::<JsonReport>(201, "The stored report"),
        reads(all, Right::Read, get(reports::list), "List reports")
            .query::<Paging>()
            .query::<reports::Query>()
            .answer_list::<JsonReport>("Reports, newest first by default"),
        Endpoint::new(Method::POST, all, Right::Write, post(run::report), "Send results")
            .body::<JsonNewReport>()
            .answer::<JsonReport>(201, "The stored report"),
        reads(one, Right::Read, get(reports::view), "View a report")
            .answer::<JsonReport>(200, "The report with results and alerts"),
        Endpoint::new(
            Method::DELETE,
            one,
            Right::Manage,
            delete(reports::delete),
            "Delete a report",
        )
        .answer_nothing(),
        reads("/v0/projects/{project}/perf", Right::Read, get(perf::perf), "Get series of metrics")
            .query::<perf::Query>()
            .answer::<JsonPerf>(200, "A series for each permutation, at most 255"),
        reads(
            "/v0/projects/{project}/perf/img",
            Right::Read,
            get(perf::image),
            "Get a plot as an image",
        )
        .query::<perf::Query>()
        .query::<perf::ImageQuery>()
        .answer_as("image/svg+xml", Type::String, "The image"),
        reads(
            "/v0/projects/{project}/metrics/{metric}",
            Right::Read,
            get(perf::metric),
            "View a metric",
        )
        .answer::<JsonOneMetric>(200, "The metric"),
        reads("/v0/projects/{project}/alerts", Right::Read, get(alerts::list), "List alerts")
            .query::<Paging>()
            .query::<alerts::Query>()
            .answer_list::<JsonAlert>("Alerts, newest first by default"),
        reads(alert, Right::Read, get(alerts::view), "View an alert")
            .answer::<JsonAlert>(200, "The alert"),
        Endpoint::new(
            Method::PATCH,
            alert,
            Right::Write,
            patch(alerts::update),
            "Change the status of an alert",
        )
        .body::<JsonUpdateAlert>()
        .answer::<JsonAlert>(200, "The changed alert"),
    ]
}

fn of_thresholds() -> Vec<Endpoint> {
    let (all, one) =
        ("/v0/projects/{project}/thresholds", "/v0/projects/{project}/thresholds/{threshold}");
    vec![
        reads(all, Right::Read, get(thresholds::list), "List thresholds")
            .query::<Paging>()
            .query::<thresholds::Query>()
            .answer_list::<JsonThreshold>("Thresholds, newest first by default"),
        Endpoint::new(
            Method::POST,
            all,
            Right::Write,
            post(thresholds::create),
            "Create a threshold",
        )
        .body::<JsonNewThreshold>()
        .answer::<JsonThreshold>(201, "The new threshold"),
        reads(one, Right::Read, get(thresholds::view), "View a threshold")
            .query::<thresholds::ViewQuery>()
            .answer::<JsonThreshold>(200, "The threshold"),
        Endpoint::new(
            Method::PUT,
            one,
            Right::Write,
            put(thresholds::update),
            "Replace the model of a threshold",
        )
        .body::<JsonUpdateModel>()
        .answer::<JsonThreshold>(200, "The changed threshold"),
        Endpoint::new(
            Method::DELETE,
            one,
            Right::Manage,
            delete(thresholds::delete),
            "Delete a threshold",
        )
        .answer_nothing(),
    ]
}

fn of_plots() -> Vec<Endpoint> {
    let (all, one) = ("/v0/projects/{project}/plots", "/v0/projects/{project}/plots/{plot}");
    vec![
        reads(all, Right::Read, get(plots::list), "List pinned plots")
            .query::<Paging>()
            .query::<plots::Query>()
            .answer_list::<JsonPlot>("The plots, in their order"),
        Endpoint::new(Method::POST, all, Right::Manage, post(plots::create), "Pin a plot")
            .body::<JsonNewPlot>()
            .answer::<JsonPlot>(201, "The new plot"),
        reads(one, Right::Read, get(plots::view), "View a plot")
            .answer::<JsonPlot>(200, "The plot"),
        Endpoint::new(Method::PATCH, one, Right::Manage, patch(plots::update), "Change a plot")
            .body::<JsonUpdatePlot>()
            .answer::<JsonPlot>(200, "The changed plot"),
        Endpoint::new(Method::DELETE, one, Right::Manage, delete(plots::delete), "Delete a plot")
            .answer_nothing(),
    ]
}

fn of_things<S: Shape + utoipa::ToSchema>(all: &'static str, one: &'static str) -> Vec<Endpoint> {
    let word = S::KIND.word();
    let summary = |verb: &str| format!("{verb} a {word}");
    let new = |method, path, right, handler, verb| {
        Endpoint::new(method, path, right, handler, &summary(verb))
    };
    vec![
        reads(all, Right::Read, get(things::list::<S>), &format!("List each {word}"))
            .query::<Paging>()
            .query::<things::Query>()
            .answer_list::<S>("Sorted by name"),
        new(Method::POST, all, Right::Write, post(things::create::<S>), "Create")
            .body::<JsonNewThing>()
            .answer::<S>(201, &format!("The created {word}")),
        new(Method::GET, one, Right::Read, get(things::view::<S>), "View")
            .answer::<S>(200, &format!("The {word}")),
        new(Method::PATCH, one, Right::Write, patch(things::update::<S>), "Change or archive")
            .body::<JsonUpdateThing>()
            .answer::<S>(200, &format!("The changed {word}")),
        new(Method::DELETE, one, Right::Manage, delete(things::delete::<S>), "Delete")
            .answer_nothing(),
    ]
}
