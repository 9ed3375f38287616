//! Text in plots: width estimation and shortening.

use unicode_width::UnicodeWidthChar as _;

/// Estimated width of a text in pixels. The actual font depends on the reader.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    let units: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'I' | '.' | ',' | ':' | ' ' | '\'' | '|' | '·' => 0.36,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
            'A'..='Z' | '+' | '−' | '±' | '<' | '>' | '=' | '_' => 0.72,
            _ => 0.6 * c.width().unwrap_or(0) as f64,
        })
        .sum();
    units * font_size
}

/// Shortens a text to that width by removing its middle: names often differ at the end.
pub(super) fn fit(text: &str, width_max: f64, font_size: f64) -> String {
    if width(text, font_size) <= width_max {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let cut = |kept: usize| {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let (head, tail) = (&chars[..head], &chars[chars.len() - tail..]);
        head.iter().chain(&['…']).chain(tail).collect::<String>()
    };
    // The width is almost monotonic in the number of characters.
    let fits = |kept: &usize| width(&cut(*kept), font_size) <= width_max;
    let (mut low, mut high) = (0, chars.len().saturating_sub(1));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&middle) { low = middle } else { high = middle - 1 }
    }
    cut(low)
}

pub(super) const LAST_CHANGE: &str = "newest value against the median before it on its line";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let long = "a".repeat(300) + "_tail";
        let fitted = fit(&long, 120.0, 12.0);
        assert!(width(&fitted, 12.0) <= 120.0 && fitted.ends_with("_tail"), "{fitted}");
        assert_eq!(fit("short", 120.0, 12.0), "short");
    }
}
