//! Selection within a service: a sample type, and labels.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::figures::Figures;
use crate::{
    console::{
        components::{name, select, shortened},
        links::Params,
    },
    profiles::Series,
};

/// Maximum labels to select by, and values of each.
const NAMES_MAX: usize = 8;
const VALUES_MAX: usize = 200;

/// The selected series, and how to format their values.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) figures: Figures,
    /// Index of the value in a sample.
    pub(super) at: usize,
    pub(super) series: Vec<Series>,
}

/// Available selections of a service.
#[derive(Debug, Clone)]
pub(super) struct Choices {
    /// One series for each profile kind and sample type.
    types: Vec<Figures>,
    /// Values of each label.
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Choice {
    /// The selection of `type` and `label`, by default CPU time. `None` without a match.
    pub(super) fn of(all: &[Series], params: &Params, label_field: &str) -> Option<Self> {
        let wanted = params.get("type");
        let types = |series: &Series| {
            (0..series.types.len()).map(|at| Figures::of(series, at).id()).collect::<Vec<_>>()
        };
        let newest = all
            .iter()
            .filter(|series| wanted.is_none_or(|id| types(series).iter().any(|it| it == id)))
            .max_by_key(|series| {
                (wanted.is_none() && series.name == "process_cpu", series.newest_ns)
            })?;
        let at = match wanted {
            Some(id) => types(newest).iter().position(|it| it == id)?,
            None => newest.shown,
        };
        let figures = Figures::of(newest, at);
        let labels: Vec<(&str, &str)> =
            params.all(label_field).filter_map(|text| text.split_once('=')).collect();
        // Profiles with other sample types cannot be added to this one.
        let is_like = |series: &&Series| series.name == newest.name && series.types == newest.types;
        let has_labels = |series: &&Series| {
            labels.iter().all(|(name, value)| {
                series.labels.get(*name).map(String::as_str).unwrap_or_default() == *value
            })
        };
        let series = all.iter().filter(is_like).filter(has_labels).cloned().collect();
        Some(Self { figures, at, series })
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        self.series.iter().map(|series| series.id).collect()
    }

    pub(super) fn newest_ns(&self) -> i64 {
        self.series.iter().map(|series| series.newest_ns).max().unwrap_or(0)
    }
}

impl Choices {
    pub(super) fn of(all: &[Series]) -> Self {
        let mut types: Vec<Figures> = Vec::new();
        let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for series in all {
            for at in 0..series.types.len() {
                let figures = Figures::of(series, at);
                if types.iter().all(|known| known.id() != figures.id()) {
                    types.push(figures);
                }
            }
            for (name, value) in &series.labels {
                labels.entry(name.clone()).or_default().insert(value.clone());
            }
        }
        // A label that only some series have distinguishes them, too.
        for (name, values) in &mut labels {
            if all.iter().any(|series| !series.labels.contains_key(name)) {
                values.insert(String::new());
            }
        }
        Self { types, labels }
    }

    /// Dropdown of sample types.
    pub(super) fn select_type(&self, chosen: &Figures) -> Markup {
        let ids: Vec<(String, String)> =
            self.types.iter().map(|it| (it.id(), it.title())).collect();
        let all = ids.iter().map(|(id, title)| (id.as_str(), title.as_str()));
        html! { (select("Type", "type", None, all, Some(&chosen.id()))) }
    }

    /// Dropdown for each label with several values.
    pub(super) fn select_labels(&self, params: &Params, field: &str) -> Markup {
        let several = self.labels.iter().filter(|(_, values)| values.len() > 1);
        html! {
            @for (label, values) in several.take(NAMES_MAX) {
                @let options: Vec<(String, String)> =
                    values.iter().take(VALUES_MAX).map(|value| option(label, value)).collect();
                @let chosen = params.all(field).find(|it| it.split_once('=').is_some_and(|(name, _)| name == label));
                (select(&shortened(label), field, Some("all"),
                    options.iter().map(|(value, text)| (value.as_str(), text.as_str())), chosen))
            }
        }
    }

    /// Labels common to all series.
    pub(super) fn facts(&self) -> Markup {
        html! {
            @for (label, values) in &self.labels {
                @if let (1, Some(value)) = (values.len(), values.first()) {
                    div { dt { (name(&shortened(label))) } dd { (name(&shortened(value))) } }
                }
            }
        }
    }
}

fn option(label: &str, value: &str) -> (String, String) {
    let text = if value.is_empty() { "without" } else { value };
    (format!("{label}={value}"), text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(id: i64, name: &str, types: &[&str], labels: &[(&str, &str)]) -> Series {
        Series {
            id,
            service: "web".to_owned(),
            name: name.to_owned(),
            labels: labels.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
            types: types.iter().map(|it| ((*it).to_owned(), "count".to_owned())).collect(),
            shown: types.len() - 1,
            newest_ns: id,
        }
    }

    #[test]
    fn addresses_choose_series() {
        let all = [
            series(1, "process_cpu", &["samples", "cpu"], &[("host", "a")]),
            series(2, "process_cpu", &["samples", "cpu"], &[("host", "b"), ("tag", "x=y")]),
            series(3, "memory", &["inuse"], &[("host", "a")]),
            series(4, "process_cpu", &["cpu"], &[("host", "a")]),
        ];
        let check = |query: &[(&str, &str)], expected: Option<(&str, &[i64])>| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let params = Params::of(query.iter().map(owned).collect());
            let found = Choice::of(&all, &params, "label");
            let found = found.map(|it| (it.figures.id(), it.ids()));
            let expected = expected.map(|(id, series)| (id.to_owned(), series.to_vec()));
            assert_eq!(found, expected, "{query:?}");
        };
        check(&[], Some(("process_cpu:cpu", &[4])));
        check(&[("type", "process_cpu:samples")], Some(("process_cpu:samples", &[1, 2])));
        check(&[("type", "memory:inuse")], Some(("memory:inuse", &[3])));
        check(&[("type", "memory:other")], None);
        let samples = ("type", "process_cpu:samples");
        check(&[samples, ("label", "host=b")], Some(("process_cpu:samples", &[2])));
        check(&[samples, ("label", "tag=x=y")], Some(("process_cpu:samples", &[2])));
        check(&[samples, ("label", "tag=")], Some(("process_cpu:samples", &[1])));
        check(&[samples, ("label", "host=c")], Some(("process_cpu:samples", &[])));
    }
}
