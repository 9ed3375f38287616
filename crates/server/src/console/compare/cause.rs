//! Why a metric differs between two reports: the explanation of an alert, as a separate page.

use axum::{extract::Path, response::Response};
use maud::html;
use wingbeat_track::model::{BenchmarkName, Slug};

use super::{reports_of, shown, split};
use crate::{
    ApiError,
    console::{
        assets::Asset,
        cause::{self, Of},
        compare::judge::{CompareRow, Comparison},
        components::name,
        layout::{Page, Tab},
        links::{Params, encoded},
        page_context::PageContext,
    },
    database::Kind,
};

/// Address of a row's explanation, by report UUID so that it is stable.
pub(super) fn address(context: &PageContext, comparison: &Comparison, row: &CompareRow) -> String {
    let sides = format!("compare/{}..{}/cause", comparison.before.uuid, comparison.after.uuid);
    let query = Params::default()
        .and("benchmark", row.benchmark.as_str())
        .and("measure", row.measure.slug.as_str());
    query.at(&context.at(sides))
}

pub(in crate::console) async fn show(
    context: PageContext,
    Path((_, sides)): Path<(String, String)>,
    params: Params,
) -> Result<Page, ApiError> {
    let (before, after) = split(&sides)?;
    let (benchmark, measure) = metric(&params)?;
    let of = of(&context, &sides, &params).await?;
    let path = context.at(format_args!("compare/{}..{}", encoded(before), encoded(after)));
    let why = cause::find(&context, of.clone(), &params).await?;
    let why = why.unwrap_or_else(|| {
        Err("there are no profiles of this measure, only of time and instructions".to_owned())
    });
    let benchmark = context.names.shown(Kind::Benchmark, benchmark.as_str());
    let measure = context.names.shown(Kind::Measure, measure.as_str());
    let title = format!("{benchmark} {measure}");
    let here = format!("{path}/cause");
    let content = html! {
        h1 { (name(&benchmark)) ": " (name(&measure)) }
        p { a href=(path) {
            (name(&shown(&context, before))) " compared with " (name(&shown(&context, after)))
        } }
        (cause::section(&context, &of, (&here, &params), &why))
    };
    Ok(Page::of(&context, Tab::Compare, &title, &[Asset::Flame], &content))
}

/// The image of the cause, for embedding.
pub(in crate::console) async fn picture(
    context: PageContext,
    Path((_, sides, picture)): Path<(String, String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let of = of(&context, &sides, &params).await?;
    cause::file(&context, of, &picture, &params).await
}

async fn of(context: &PageContext, sides: &str, params: &Params) -> Result<Of, ApiError> {
    let (benchmark, measure) = metric(params)?;
    let sides = reports_of(context, split(sides)?, params).await?;
    Ok(Of::Reports { before: sides.before.uuid, after: sides.after.uuid, benchmark, measure })
}

/// The metric to explain.
fn metric(params: &Params) -> Result<(BenchmarkName, Slug), ApiError> {
    let benchmark = params.get("benchmark").and_then(|name| BenchmarkName::new(name).ok());
    let measure = params.get("measure").and_then(|slug| Slug::new(slug).ok());
    benchmark.zip(measure).ok_or_else(|| {
        ApiError::bad_request("invalid address: it must end with ?benchmark=NAME&measure=SLUG")
    })
}
