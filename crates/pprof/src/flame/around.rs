//! The callers of a function, and its callees, as profiles of their own.

use crate::{
    names::plain,
    origin::Origin,
    side::{Side, Stack},
};

/// The callers, innermost first, and the callees, outermost first, of the outermost frame with this name in each stack,
/// without that frame; and its origin.
pub(super) fn sides(side: &Side, function: &str) -> Option<([Side; 2], Origin)> {
    let is_it: Vec<bool> = side.frames.iter().map(|frame| plain(&frame.name) == function).collect();
    let at = |frame: &u32| is_it.get(*frame as usize).copied().unwrap_or(false);
    let (mut callers, mut callees) = (Vec::new(), Vec::new());
    let mut origin = None;
    for Stack { frames, weight, count } in &side.stacks {
        let Some(place) = frames.iter().position(at) else { continue };
        let (above, below) = (frames[..place].iter().rev(), &frames[place + 1..]);
        origin = origin.or(Some(side.frames[frames[place] as usize].origin));
        let (weight, count) = (*weight, *count);
        callers.push(Stack { frames: above.copied().collect(), weight, count });
        callees.push(Stack { frames: below.to_vec(), weight, count });
    }
    let of = |stacks: Vec<Stack>| Side {
        frames: side.frames.clone(),
        total: stacks.iter().map(|stack| stack.weight).sum(),
        stacks,
        kind: side.kind.clone(),
        is_exact: side.is_exact,
    };
    Some(([of(callers), of(callees)], origin?))
}

#[cfg(test)]
mod tests {
    use crate::{Flame, Medium, Request, View, side::tests::side};

    /// Name and value of each frame of a picture, in the order of callers before callees.
    fn frames(flame: &Flame, view: View) -> Vec<String> {
        let request = Request { view, medium: Medium::Page, title: "", search: None };
        let svg = flame.draw(request, &|value| format!("{value:.0}")).svg;
        let titles = svg.split("<title>").skip(1);
        let titles = titles.filter_map(|rest| rest.split_once("</title>"));
        titles.map(|(title, _)| title.replace('\n', " ")).collect()
    }

    #[test]
    fn callers_and_callees_of_a_function() {
        let side = side("main;a;f;x 4\nmain;b;f;x;y 2\nmain;b;f 1\nmain;b;f;g;f;x 1\nmain;other 8");
        let [callers, callees] = Flame::around(&side, "f", 16.0).expect("it is there");
        assert_eq!(
            frames(&callers, View::Single),
            ["f 8 (100 %)", "a 4 (50 %)", "main 4 (50 %)", "b 4 (50 %)", "main 4 (50 %)"]
        );
        assert_eq!(
            frames(&callees, View::Hanging),
            [
                "f 8 (100 %)",
                "g 1 (12.5 %)",
                "f 1 (12.5 %)",
                "x 1 (12.5 %)",
                "x 6 (75 %)",
                "y 2 (25 %)"
            ]
        );
        assert!(Flame::around(&side, "none", 16.0).is_none());
        // Nothing calls the outermost function.
        let [callers, _] = Flame::around(&side, "main", 16.0).expect("it is there");
        assert_eq!(frames(&callers, View::Single), ["main 16 (100 %)"]);
    }

    #[test]
    fn callees_hang() {
        let [_, callees] = Flame::around(&side("main;f;x 4"), "f", 4.0).expect("it is there");
        let top = |view| {
            let request = Request { view, medium: Medium::Page, title: "", search: None };
            let svg = callees.draw(request, &|value| format!("{value}")).svg;
            let rows = svg.split("class=\"frame\"").skip(1);
            let rows = rows.filter_map(|row| row.split_once(" y=\"")?.1.split_once('"'));
            rows.map(|(y, _)| y.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(top(View::Single), ["18", "0"]);
        assert_eq!(top(View::Hanging), ["0", "18"]);
    }
}
