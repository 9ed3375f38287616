//! `wingbeat top`, on a terminal and once.

use std::{process::Command, thread, time::Duration};

use rustix::process::Signal;
use wingbeat_bpf_loader::fd_holders::Owners;

use crate::live::{
    network::Network,
    pty::Terminal,
    support::{
        Dropper, check_attached, check_statistics, program_in, result, run, started, statistics,
        turn, wait_for, wingbeat,
    },
};

const ROWS: u16 = 24;
const COLUMNS: u16 = 110;

fn top(more: &[&str]) -> Command {
    wingbeat(&[&["top", "-d", "200ms", "--filter", "screened_"], more].concat())
}

/// The screen row that contains a text.
fn row(text: &str, wanted: &str) -> Option<usize> {
    text.lines().position(|line| line.contains(wanted))
}

/// Last column of a program's row.
fn last_word(text: &str, wanted: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(wanted))?;
    line.split_whitespace().last().map(str::to_owned)
}

#[test]
fn it_shows_sorts_filters_and_leaves() {
    let Some(_turn) = turn() else { return };
    let before = statistics();
    let network = Network::enter();
    let _busy = Dropper::attached("screened_busy");
    let _idle = Dropper::load("screened_alpha");
    let mut terminal = Terminal::start(&top(&[]), ROWS, COLUMNS);
    terminal.wait_for("both programs", |text| {
        text.contains("screened_busy")
            && text.contains("screened_alpha")
            && text.contains("CPU % ▼")
    });
    assert!(terminal.screen(vt100::Screen::alternate_screen));
    terminal.wait_for("the owner", |text| text.contains(&format!("({})", std::process::id())));

    // The busy one moves to the top, with figures.
    let is_first = |text: &str, first: &str, second: &str| row(text, first) < row(text, second);
    terminal.wait_for("figures", |text| {
        network.send(50);
        let is_known =
            last_word(text, "screened_busy").is_some_and(|word| word != "0.00" && word != "–");
        is_known && is_first(text, "screened_busy", "screened_alpha")
    });

    // By name.
    terminal.press("n");
    terminal.wait_for("names in order", |text| {
        text.contains("name ▲") && is_first(text, "screened_alpha", "screened_busy")
    });

    // Keys of several bytes, and what is typed.
    terminal.press("\u{1b}[B");
    terminal.wait_for("details", |text| text.contains("runs/s, ") && text.contains("tag "));
    terminal.press("/alp\r");
    terminal.wait_for("one program", |text| {
        text.contains("screened_alpha") && row(text, "screened_busy").is_none()
    });

    // A narrow terminal, on which the name stays.
    terminal.resize(10, 40);
    terminal.wait_for("a narrow table", |text| {
        text.contains("screened_alpha") && !text.contains("owners")
    });

    let pid = terminal.pid();
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.check_restored();
    check_statistics(&before, pid);
}

#[test]
fn every_way_out_leaves_the_terminal_as_it_was() {
    let Some(_turn) = turn() else { return };
    let _dropper = Dropper::load("screened_one");
    let check = |what: &str, leave: &dyn Fn(&mut Terminal)| {
        let before = statistics();
        let mut terminal = Terminal::start(&top(&[]), ROWS, COLUMNS);
        terminal.wait_for("the program", |text| text.contains("screened_one"));
        let pid = terminal.pid();
        leave(&mut terminal);
        assert_eq!(terminal.end().code(), Some(0), "{what}");
        terminal.check_restored();
        check_statistics(&before, pid);
    };
    check("Esc", &|terminal| terminal.press("\u{1b}"));
    check("Ctrl-C", &|terminal| terminal.press("\u{3}"));
    check("SIGTERM", &|terminal| terminal.signal(Signal::TERM));
    check("SIGHUP", &|terminal| terminal.signal(Signal::HUP));
    check("SIGINT", &|terminal| terminal.signal(Signal::INT));
}

#[test]
fn a_kill_leaves_the_machine_as_it_was() {
    let Some(_turn) = turn() else { return };
    let _dropper = Dropper::load("screened_two");
    let before = statistics();
    let mut terminal = Terminal::start(&top(&[]), ROWS, COLUMNS);
    terminal.wait_for("the program", |text| text.contains("screened_two"));
    let pid = terminal.pid();
    let holds = || {
        let holders = Owners::scan().expect("/proc").keep_statistics_on;
        holders.iter().any(|owner| owner.pid == pid)
    };
    wait_for("statistics to be on", holds);
    assert!(statistics().1);
    terminal.signal(Signal::KILL);
    assert_eq!(terminal.end().code(), None);
    check_statistics(&before, pid);
}

#[test]
fn colours_are_a_choice() {
    let Some(_turn) = turn() else { return };
    let _dropper = Dropper::load("screened_three");
    let has_colors = |arguments: &[&str], no_color: bool| {
        let mut command = top(arguments);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let terminal = Terminal::start(&command, ROWS, COLUMNS);
        terminal.wait_for("the program", |text| text.contains("screened_three"));
        terminal.screen(|screen| {
            let cells = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
            let mut cells = cells.filter_map(|(row, column)| screen.cell(row, column));
            cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
        })
    };
    assert!(has_colors(&[], false));
    assert!(!has_colors(&[], true));
    assert!(!has_colors(&["--color", "never"], false));
    assert!(has_colors(&["--color", "always"], true));
}

// `wingbeat top --once`.

#[test]
fn it_finds_programs_with_their_owners_and_counts_them() {
    let Some(_turn) = turn() else { return };
    let before = statistics();
    let network = Network::enter();
    let dropper = Dropper::attached("drop_every_packet");
    let child = started(wingbeat(&["top", "--once", "-d", "2s", "--format", "json"]));
    let pid = child.id();
    // In the middle of its time.
    thread::sleep(Duration::from_secs(1));
    network.send(700);
    let report = result(child).ended_with(0).json();
    check_statistics(&before, pid);
    assert!(report["empty_run_ns"].as_f64().is_some_and(|ns| ns > 1.0), "{report}");
    let program = program_in(&report, dropper.id);
    assert_eq!((&program["name"], &program["runs"]), (&"drop_every_packet".into(), &700.into()));
    assert_eq!(program["owners"][0]["pid"], std::process::id());
    check_attached(&program);
    assert!(program["cpu_share"].as_f64().is_some_and(|share| share > 0.0 && share < 0.5));
}

#[test]
fn flags_of_one_table() {
    let Some(_turn) = turn() else { return };
    let droppers = ["sieve_b", "sieve_a", "other"].map(Dropper::load);
    let top = |more: &[&str]| {
        run(wingbeat(&[&["top", "--once", "-d", "100ms"], more].concat())).ended_with(0)
    };
    let flags = ["--format", "json", "--filter", "SIEVE", "--sort", "name"];
    let report = top(&flags).json();
    let names = report["programs"].as_array().expect("programs").iter().map(|it| &it["name"]);
    assert!(names.eq(["sieve_a", "sieve_b"]), "{report}");
    let human = top(&[]).stdout;
    let has = |dropper: &Dropper| human.contains(&format!("{}  xdp", dropper.id));
    assert!(droppers.iter().all(has), "{human}");
    let nobody = top(&["--filter", "nobody has this"]);
    nobody.prints("no program has \"nobody has this\" in its name,");
    top(&["--format", "csv", "--filter", "other"]).prints(",xdp,other,");
    // Somebody who has read enough is no error.
    let mut child = started(wingbeat(&["top", "--once", "-d", "300ms"]));
    drop(child.stdout.take());
    let found = result(child).ended_with(0);
    assert!(!found.stderr.contains("error"), "{found}");
    let expected = "stdout is not a terminal; `wingbeat top --once` prints one table and ends";
    run(wingbeat(&["top"])).ended_with(1).tells(expected).prints_nothing();
}
