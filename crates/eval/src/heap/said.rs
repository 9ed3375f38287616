//! What `wingbeat heap` writes on a terminal, as far as it is looked at.

/// What the line about the total says after `±`, as a part of it; 0 where it says none.
pub(super) fn margin(text: &str) -> Option<f64> {
    let total = text.lines().find_map(|line| line.strip_prefix("  total "))?;
    let Some((_, rest)) = total.split_once('±') else { return Some(0.0) };
    let percent: f64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(percent / 100.0)
}

/// What found no room, without what follows from that.
pub(super) fn losses(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("found no room"));
    let what = |line: &str| {
        let text = line.trim().trim_start_matches("warning: ");
        text.split(": ").next().unwrap_or(text).to_owned()
    };
    lines.map(what).collect()
}

/// How many allocations were taken.
pub(super) fn taken(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("  calls "))?;
    let number = line.trim_end().strip_suffix(" taken")?.rsplit(' ').next()?;
    number.replace(',', "").parse().ok()
}

/// The lines below "Perhaps leaks".
pub(super) fn suspects(text: &str) -> Vec<&str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Perhaps leaks"));
    lines.next();
    lines.take_while(|line| !line.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "heap PID 7 (calls) in 1.00 s: a sample every 4 KB
  calls   137,000 allocations of 13 MB, 140,000 frees; 13,620 taken
  total   13 MB ± 3.1 % in 136,200 blocks
  peak    100 bytes in 1 block, after 123 µs

Perhaps leaks: allocated again and again, and hardly ever freed
     2,864 bytes    11 blocks        25 KB/s  forget (calls.c:47) ← work

warning: 5 allocations found no room in the buffer: all sums are too small
wrote a.json
";

    #[test]
    fn what_is_looked_at() {
        assert_eq!(margin(TEXT), Some(0.031));
        assert_eq!(margin("  total   5 bytes in 1 block\n"), Some(0.0));
        assert_eq!(margin("error"), None);
        assert_eq!(taken(TEXT), Some(13_620));
        assert_eq!(suspects(TEXT).len(), 1);
        assert_eq!(suspects("no such part\n\na\n"), [""; 0]);
        assert_eq!(losses(TEXT), ["5 allocations found no room in the buffer"]);
    }
}
