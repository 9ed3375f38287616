//! The flags of a verb as Markdown, in the words of `--help`: the source of the tables in `docs/`.

use clap::{Arg, Command, builder::StyledStr};

/// The program.
pub(super) const NAME: &str = "wingbeat";

/// A file for each verb, and one for the flags of all of them: file name and text.
pub(super) fn files(command: &Command) -> Vec<(String, String)> {
    let mut globals = String::new();
    tables(command, &mut globals);
    let all = (format!("{}.md", command.get_name()), globals);
    let verbs = command.get_subcommands().map(|verb| {
        let mut text = String::new();
        section(verb, &mut text);
        (format!("{}.md", verb.get_name()), text)
    });
    [all].into_iter().chain(verbs).collect()
}

/// How a verb is called, its flags, and the same of its own verbs.
fn section(verb: &Command, text: &mut String) {
    *text += &format!("```\n{}\n```\n", usage(verb));
    tables(verb, text);
    for part in verb.get_subcommands() {
        let about = part.get_about().map_or_else(String::new, StyledStr::to_string);
        *text += &format!("\n{}:\n\n", escaped(&about));
        section(part, text);
    }
}

/// How a verb is called, a way on each line: `wingbeat diff [OPTIONS] <BEFORE> <AFTER>`.
pub(super) fn usage(verb: &Command) -> String {
    let usage = verb.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    lines.collect::<Vec<_>>().join("\n")
}

/// A table for each group of flags, in the order of their definition.
fn tables(command: &Command, text: &mut String) {
    let is_root = command.get_name() == NAME;
    let is_told = |arg: &&Arg| {
        let is_everywhere = arg.is_global_set() || matches!(arg.get_id().as_str(), "help");
        !arg.is_hide_set() && (is_root || !is_everywhere)
    };
    let mut groups: Vec<(Option<&str>, Vec<&Arg>)> = vec![(None, Vec::new())];
    // What stands without a dash comes first, as in `--help`.
    let (positional, flags): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(is_told).partition(|arg| arg.is_positional());
    for arg in positional.into_iter().chain(flags) {
        let heading = arg.get_help_heading();
        match groups.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, args)) => args.push(arg),
            None => groups.push((heading, vec![arg])),
        }
    }
    for (heading, args) in groups.into_iter().filter(|(_, args)| !args.is_empty()) {
        *text += &format!("\n| {} | meaning |\n| --- | --- |\n", heading.unwrap_or("flag"));
        for arg in args {
            *text += &format!("| {} | {} |\n", name(arg), meaning(arg));
        }
    }
}

/// As one would type it: `-F`, `--frequency <HZ>`.
fn name(arg: &Arg) -> String {
    let long = arg.to_string();
    let short = arg.get_short().filter(|_| arg.get_long().is_some());
    let short = short.map_or_else(String::new, |short| format!("`-{short}`, "));
    format!("{short}`{}`", long.replace('|', "\\|"))
}

/// The text of `--help`, with values and default as that shows them.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut parts = vec![escaped(&help.map_or_else(String::new, StyledStr::to_string))];
    let takes_values = arg.get_action().takes_values();
    if takes_values && !arg.is_hide_possible_values_set() {
        let values = arg.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set()).map(|value| {
            let help = value.get_help().map(StyledStr::to_string).unwrap_or_default();
            let help = if help.is_empty() { help } else { format!(" ({})", escaped(&help)) };
            format!("`{}`{help}", value.get_name())
        });
        let values: Vec<_> = values.collect();
        if !values.is_empty() {
            parts.push(format!("Values: {}", values.join(", ")));
        }
    }
    if takes_values && !arg.is_hide_default_value_set() && !arg.get_default_values().is_empty() {
        let values = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        parts.push(escaped(&format!("[default: {}]", values.collect::<Vec<_>>().join(", "))));
    }
    if let Some(aliases) = arg.get_visible_aliases().filter(|aliases| !aliases.is_empty()) {
        parts.push(format!("[aliases: --{}]", aliases.join(", --")));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("<br>")
}

/// On one line, and nothing in it means anything to Markdown.
fn escaped(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::new();
    for c in line.chars() {
        if "|<>*\\`".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, builder::PossibleValue};

    use super::*;

    #[test]
    fn an_argument_is_a_row() {
        let check = |arg: Arg, expected: &str| {
            let mut command = Command::new("verb").arg(arg);
            command.build();
            let arg = command.get_arguments().next().expect("one");
            assert_eq!(format!("{} | {}", name(arg), meaning(arg)), expected);
        };
        let hz = || Arg::new("hz").long("frequency").value_name("HZ");
        check(hz().help("Samples\nper second"), "`--frequency <HZ>` | Samples per second");
        check(hz().short('F').help("a|b *"), "`-F`, `--frequency <HZ>` | a\\|b \\*");
        check(hz().help("Rate").default_value("99"), "`--frequency <HZ>` | Rate<br>[default: 99]");
        check(
            hz().help("Rate").visible_alias("rate"),
            "`--frequency <HZ>` | Rate<br>[aliases: --rate]",
        );
        check(hz().help("Short").long_help("Long"), "`--frequency <HZ>` | Long");
        let values = [PossibleValue::new("on").help("Yes"), PossibleValue::new("off")];
        check(
            hz().help("Which").value_parser(values),
            "`--frequency <HZ>` | Which<br>Values: `on` (Yes), `off`",
        );
        check(
            Arg::new("all").long("all").action(ArgAction::SetTrue).help("All of them"),
            "`--all` | All of them",
        );
        check(Arg::new("FILE").required(true).help("What to read"), "`<FILE>` | What to read");
    }

    #[test]
    fn flags_of_all_verbs_are_told_once() {
        let verb = Command::new("verb").arg(Arg::new("own").long("own").help("Of its own"));
        let quiet = Arg::new("quiet").long("quiet").global(true).action(ArgAction::SetTrue);
        let mut command = Command::new("wingbeat").arg(quiet.help("Less")).subcommand(verb);
        command = command.disable_help_flag(true).disable_help_subcommand(true);
        command.build();
        let files = files(&command);
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["wingbeat.md", "verb.md"]);
        assert_eq!(files[0].1, "\n| flag | meaning |\n| --- | --- |\n| `--quiet` | Less |\n");
        let own = "```\nwingbeat verb [OPTIONS]\n```\n\n| flag | meaning |\n| --- | --- |\n\
                   | `--own <own>` | Of its own |\n";
        assert_eq!(files[1].1, own);
    }
}
