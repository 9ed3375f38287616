//! How a plot is drawn: its axes, hidden lines and zoom, all in the address.

use maud::{Markup, html};
use wingbeat_track::plot::{Chart, LINES_MAX, Look, Scale, colour_class};

use crate::{
    ApiError,
    console::{
        components::{name, select, shortened},
        links::Params,
    },
    database::{PlotSettings, XAxis, YAxis},
};

/// Parameters.
pub(super) const SCALE: &str = "y";
pub(super) const COLUMNS: &str = "x";
pub(super) const CHARTS: &str = "charts";
pub(super) const HIDDEN: &str = "hide";
/// Times of the first and last report in view. The script reads and sets it.
pub(super) const ZOOM: &str = "zoom";

/// Parameters that a pinned plot keeps.
pub(in crate::console) const AXES: [&str; 2] = [SCALE, COLUMNS];

/// Maximum entries of the legend.
const LEGEND_MAX: usize = 40;

const SCALES: [(&str, &str); 2] = [("linear", "linear"), ("log", "logarithmic")];
const VERSION: (&str, &str) = ("version", "by commit");
const BY_MEASURE: (&str, &str) = ("measure", "one per measure");

/// The look that a query asks for.
pub(super) fn look(params: &Params) -> Result<Look, ApiError> {
    let refused = |name: &str, text: &str, expected: &str| {
        let text = shortened(text);
        ApiError::bad_request(format!("invalid {name}={text} in the address: expected {expected}"))
    };
    let scale = match params.get(SCALE) {
        None | Some("auto") => Scale::Auto,
        Some("linear") => Scale::Linear,
        Some("log") => Scale::Logarithmic,
        Some(text) => return Err(refused(SCALE, text, "auto, linear or log")),
    };
    let is_by_version = match params.get(COLUMNS) {
        None | Some("report") => false,
        Some("version") => true,
        Some(text) => return Err(refused(COLUMNS, text, "report or version")),
    };
    let is_together = match params.get(CHARTS) {
        None | Some("benchmark") => false,
        Some("measure") => true,
        Some(text) => return Err(refused(CHARTS, text, "benchmark or measure")),
    };
    let hidden = params.all(HIDDEN).map(str::to_owned).collect();
    Ok(Look { scale, is_by_version, is_together, hidden })
}

/// The axes of a query as settings of a pinned plot.
pub(in crate::console) fn settings(params: &Params) -> Result<PlotSettings, ApiError> {
    let look = look(params)?;
    Ok(PlotSettings {
        x_axis: if look.is_by_version { XAxis::Version } else { XAxis::DateTime },
        y_axis: match look.scale {
            Scale::Auto => YAxis::Auto,
            Scale::Linear => YAxis::Linear,
            Scale::Logarithmic => YAxis::Log,
        },
        ..PlotSettings::default()
    })
}

/// The query with the axes of a pinned plot.
pub(in crate::console) fn with_settings(params: &Params, settings: &PlotSettings) -> Params {
    let scale = match settings.y_axis {
        YAxis::Auto => "",
        YAxis::Linear => "linear",
        YAxis::Log => "log",
    };
    let columns = if settings.x_axis == XAxis::Version { VERSION.0 } else { "" };
    params.with(SCALE, scale).with(COLUMNS, columns)
}

/// Dropdowns of the axes and charts.
pub(super) fn selects(params: &Params) -> Markup {
    let one = |label, field, none, (value, words): (&'static str, &'static str)| {
        select(label, field, Some(none), [(value, words)].into_iter(), params.get(field))
    };
    html! {
        (select("Vertical axis", SCALE, Some("automatic"), SCALES.into_iter(), params.get(SCALE)))
        (one("Horizontal axis", COLUMNS, "by report", VERSION))
        (one("Charts", CHARTS, "one per benchmark", BY_MEASURE))
        // The script keeps it up to date.
        input type="hidden" name=(ZOOM) value=(params.get(ZOOM).unwrap_or_default());
    }
}

/// The lines, each with a link that hides or shows it. Empty for a single line.
pub(super) fn legend(path: &str, params: &Params, chart: &Chart) -> Markup {
    let names = chart.line_names();
    let is_hidden = |name: &str| params.all(HIDDEN).any(|hidden| hidden == name);
    let turned = |name: &str| {
        let others = params.all(HIDDEN).filter(|hidden| *hidden != name);
        let turned =
            others.fold(params.with(HIDDEN, ""), |params, other| params.and(HIDDEN, other));
        let turned = if is_hidden(name) { turned } else { turned.and(HIDDEN, name) };
        turned.at(path)
    };
    let is_coloured = names.len() <= LINES_MAX;
    html! {
        @if names.len() > 1 {
            nav class="lines" aria-label="Lines" {
                @for (colour, line) in names.iter().copied().enumerate().take(LEGEND_MAX) {
                    @let verb = if is_hidden(line) { "Show" } else { "Hide" };
                    a class=[is_hidden(line).then_some("off")] href=(turned(line)) data-zooms
                        title={ (verb) " this line" } aria-label={ (verb) " " (line) } {
                        @if is_coloured {
                            svg class={ "swatch " (colour_class(colour)) } width="18" height="10" aria-hidden="true" {
                                path class="line" d="M0 5H18" {}
                            }
                        }
                        (name(&shortened(line)))
                    }
                }
                @if names.len() > LEGEND_MAX { span class="quiet" { "and " (names.len() - LEGEND_MAX) " more" } }
                @if params.get(HIDDEN).is_some() {
                    a class="quiet" href=(params.with(HIDDEN, "").at(path)) data-zooms { "Show all lines" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &[(&str, &str)]) -> Params {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Params::of(query.iter().map(owned).collect())
    }

    #[test]
    fn addresses_choose_looks() {
        let plain = Look::default();
        let check = |query: &[(&str, &str)], expected: Option<Look>| {
            assert_eq!(look(&params(query)).ok(), expected, "{query:?}");
        };
        check(&[], Some(plain.clone()));
        check(&[("y", "log")], Some(Look { scale: Scale::Logarithmic, ..plain.clone() }));
        check(&[("y", "logarithmic")], None);
        check(&[("x", "version")], Some(Look { is_by_version: true, ..plain.clone() }));
        check(&[("x", "time")], None);
        check(&[("charts", "measure")], Some(Look { is_together: true, ..plain.clone() }));
        let hidden = vec!["a".to_owned(), "b".to_owned()];
        check(&[("hide", "a"), ("hide", "b")], Some(Look { hidden, ..plain }));
    }

    #[test]
    fn pins_keep_the_axes() {
        for query in [&[][..], &[("y", "log"), ("x", "version")], &[("y", "linear")]] {
            let asked = params(query);
            let settings = settings(&asked).expect("settings");
            assert_eq!(with_settings(&Params::default(), &settings), asked);
        }
    }
}
