//! Layout of frames: each is as wide as its part of the profile, above its caller.

use super::{Medium, Request, tree::Tree};

/// Limits of the frames to draw; the narrowest are omitted.
#[derive(Clone, Copy)]
struct Limits {
    /// Minimum part of the width.
    width: f64,
    /// Maximum number.
    count: usize,
}

const OF_PAGE: Limits = Limits { width: 0.0005, count: 3000 };
const OF_FILE: Limits = Limits { width: 0.0001, count: 12_000 };

/// A positioned frame, in parts of the whole width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    /// Index in the tree.
    pub(super) frame: usize,
    /// 0 for the outermost.
    pub(super) depth: usize,
    pub(super) left: f64,
    pub(super) width: f64,
}

/// All positioned frames.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// Frames come after their callers.
    pub(super) placed: Vec<Placed>,
    /// Number of omitted frames, and the width that they would have needed.
    pub(super) hidden: usize,
    pub(super) width_min: f64,
}

impl Layout {
    pub(super) fn of(tree: &Tree, request: Request<'_>) -> Self {
        let is_before = request.view.has_widths_of_before();
        let weight = |frame: usize| tree.frames[frame].weight(is_before);
        let whole = weight(0);
        let mut all = Vec::new();
        let mut open = vec![Placed { frame: 0, depth: 0, left: 0.0, width: 1.0 }];
        while let Some(placed) = open.pop() {
            all.push(placed);
            let mut left = placed.left;
            let begin = open.len();
            for child in &tree.frames[placed.frame].children {
                let frame = *child as usize;
                let width = weight(frame) / whole;
                if width > 0.0 {
                    open.push(Placed { frame, depth: placed.depth + 1, left, width });
                    left += width;
                }
            }
            // The first one must be popped first.
            open[begin..].reverse();
        }
        let has_zoom = request.medium == Medium::InteractiveFile;
        Self::of_wide(all, if has_zoom { OF_FILE } else { OF_PAGE })
    }

    /// No frame is wider than its caller, so omitted frames leave no gap below others.
    fn of_wide(mut placed: Vec<Placed>, limits: Limits) -> Self {
        let count = placed.len();
        let mut widths: Vec<f64> = placed.iter().map(|it| it.width).collect();
        widths.sort_by(|a, b| b.total_cmp(a));
        let mut width_min = limits.width;
        if let Some(first_out) = widths.get(limits.count).filter(|width| **width >= limits.width) {
            // Frames as wide as the first omitted one are omitted too, so that the result does not depend on the order.
            width_min = first_out.next_up();
        }
        placed.retain(|it| it.width >= width_min || it.depth == 0);
        Self { hidden: count - placed.len(), placed, width_min }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.placed.iter().map(|it| it.depth + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, View, compare, side::tests::side};

    const METRIC: Metric = Metric { before: 100.0, after: 150.0, before_sd: 1.0, after_sd: 1.0 };

    fn tree(before: &str, after: &str) -> Tree {
        let (before, after) = (side(before), side(after));
        let explanation = compare(&before, &after, METRIC).expect("comparable");
        Tree::of(&before, &after, &explanation)
    }

    fn laid_out(tree: &Tree, view: View) -> Layout {
        Layout::of(tree, Request { view, medium: Medium::Page, title: "", search: None })
    }

    fn check(view: View, expected: &str) {
        let tree = tree(
            "main;b 50\nmain;gone;x 50\nf::<u8> 100",
            "main;b 25\nmain;a 50\nmain 25\nf::<u16> 100",
        );
        let layout = laid_out(&tree, view);
        let line = |it: &Placed| {
            let name = tree.name(&tree.frames[it.frame]);
            format!("{}{name} {:.3} {:.3}", " ".repeat(it.depth), it.left, it.width)
        };
        let lines: Vec<String> = layout.placed.iter().map(line).collect();
        assert_eq!(lines.join("\n"), expected, "{view:?}");
        assert_eq!(
            (layout.hidden, layout.rows()),
            (0, expected.lines().count().min(layout.rows()))
        );
    }

    #[test]
    fn each_view_has_its_widths() {
        check(
            View::Difference,
            "all 0.000 1.000\n f::<u16> 0.000 0.500\n main 0.500 0.500\n  a 0.500 0.250\n  b 0.750 0.125",
        );
        let before = "all 0.000 1.000\n f::<u16> 0.000 0.500\n main 0.500 0.500\n  b 0.500 0.250\n  gone 0.750 0.250\n   x 0.750 0.250";
        check(View::Vanished, before);
        check(View::Before, before);
    }

    #[test]
    fn closures_of_renamed_functions_are_renamed() {
        let tree =
            tree("main;f::<u8>;f::<u8>::{{closure}} 9", "main;f::<u16>;f::<u16>::{{closure}} 9");
        let names: Vec<_> = tree.frames.iter().map(|frame| tree.name(frame)).collect();
        assert_eq!(names, ["all", "main", "f::<u16>", "f::<u16>::{{closure}}"]);
    }

    #[test]
    fn very_many_frames_are_bounded() {
        let many: String = (0..20_000).map(|at| format!("main;f{at:05} 1\n")).collect();
        let check = |stacks: &str, drawn: usize, hidden: usize| {
            let layout = laid_out(&tree(stacks, stacks), View::Difference);
            assert_eq!((layout.placed.len(), layout.hidden), (drawn, hidden));
        };
        check(&many, 2, 20_000);
        let deep = format!("{} 1\n", vec!["f"; 5000].join(";"));
        check(&deep, 1025, 0);
        // Each of 1,000 columns has 10 rows.
        let column = |at: usize| format!("{};g{at}{} 1\n", "f", ";h".repeat(9));
        let grid: String = (0..1000).map(column).collect();
        check(&grid, 2, 10_000);
    }

    #[test]
    fn stacks_without_frames_are_the_whole() {
        let mut empty = side("main 1");
        empty.stacks[0].frames.clear();
        let explanation = compare(&empty, &empty, METRIC).expect("comparable");
        let layout = laid_out(&Tree::of(&empty, &empty, &explanation), View::After);
        assert_eq!(layout.placed.len(), 1);
    }
}
