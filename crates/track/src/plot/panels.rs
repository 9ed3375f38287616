//! Which lines share a panel, and in which order panels and lines come.

use std::{cmp::Reverse, collections::HashMap};

use super::chart::{Line, Panel};
use crate::store::PlotSeries;

/// Panels of the lines of series: one for each measure of each benchmark. Times in different units are
/// brought to one; other units have panels of their own.
pub(super) fn group<'a>(lines: impl Iterator<Item = (&'a PlotSeries, Line)>) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    let mut known: HashMap<_, Vec<usize>> = HashMap::new();
    for (series, mut line) in lines {
        let same = known.entry((&series.benchmark, &series.measure.slug)).or_default();
        let fitting = same.iter().find_map(|&index| {
            let measure = &panels[index].measure;
            let factor = match measure.units == series.measure.units {
                true => 1.0,
                false => measure.ladder().factor_from(&series.measure.ladder())?,
            };
            Some((index, factor))
        });
        if let Some((index, factor)) = fitting {
            if factor != 1.0 {
                line.scale(factor);
            }
            panels[index].lines.push(line);
        } else {
            same.push(panels.len());
            panels.push(Panel {
                benchmark: series.benchmark.to_string(),
                measure: series.measure.clone(),
                lines: vec![line],
            });
        }
    }
    sort(&mut panels);
    panels
}

/// What needs a look first; among equals by measure and benchmark.
fn sort(panels: &mut [Panel]) {
    for panel in panels.iter_mut() {
        let newest = |line: &Line| line.last().map(|dot| dot.stamp);
        panel.lines.sort_by_cached_key(|line| (line.rank(), Reverse(newest(line))));
    }
    panels.sort_by_cached_key(|panel| {
        (panel.rank(), panel.measure.slug.clone(), panel.benchmark.clone())
    });
}
