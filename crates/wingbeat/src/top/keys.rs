//! Key bindings.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::columns::Column;

/// Action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Quit,
    SortBy(Column),
    SortByNeighbour {
        to_the_right: bool,
    },
    Reverse,
    /// Moves the selection by some rows.
    Move(isize),
    First,
    Last,
    /// Starts typing a filter.
    Filter,
    Type(char),
    Erase,
    EraseAll,
    /// Confirms the filter.
    Keep,
    /// Cancels typing; restores the previous filter.
    Discard,
}

/// Rows of a page, regardless of the screen.
const PAGE: isize = 10;

/// Action of `key`, which depends on whether a filter is being `typed`; `None` if unbound.
pub(crate) fn step(key: KeyEvent, typed: bool) -> Option<Step> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match (is_control, typed) {
        (true, _) if key.code == KeyCode::Char('c') => Some(Step::Quit),
        (true, true) if key.code == KeyCode::Char('u') => Some(Step::EraseAll),
        (true, _) => None,
        (false, true) => while_typing(key.code),
        (false, false) => command(key.code),
    }
}

fn while_typing(code: KeyCode) -> Option<Step> {
    match code {
        KeyCode::Enter => Some(Step::Keep),
        KeyCode::Esc => Some(Step::Discard),
        KeyCode::Backspace => Some(Step::Erase),
        KeyCode::Char(c) => Some(Step::Type(c)),
        _ => None,
    }
}

fn command(code: KeyCode) -> Option<Step> {
    let letter = |c: char| Column::ALL.into_iter().find(|column| column.key() == c);
    match code {
        KeyCode::Esc | KeyCode::Char('q' | 'Q') => Some(Step::Quit),
        KeyCode::Char('/') => Some(Step::Filter),
        KeyCode::Char('<') => Some(Step::SortByNeighbour { to_the_right: false }),
        KeyCode::Char('>') => Some(Step::SortByNeighbour { to_the_right: true }),
        KeyCode::Char('r') => Some(Step::Reverse),
        KeyCode::Up | KeyCode::Char('k') => Some(Step::Move(-1)),
        KeyCode::Down | KeyCode::Char('j') => Some(Step::Move(1)),
        KeyCode::PageUp => Some(Step::Move(-PAGE)),
        KeyCode::PageDown => Some(Step::Move(PAGE)),
        KeyCode::Home => Some(Step::First),
        KeyCode::End => Some(Step::Last),
        KeyCode::Char(c) => letter(c).map(Step::SortBy),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let check = |code, modifiers, typed, expected| {
            assert_eq!(step(KeyEvent::new(code, modifiers), typed), expected, "{code:?} {typed}");
        };
        let plain =
            |c, typed, expected| check(KeyCode::Char(c), KeyModifiers::NONE, typed, expected);
        plain('q', false, Some(Step::Quit));
        plain('q', true, Some(Step::Type('q')));
        plain('c', false, Some(Step::SortBy(Column::Cpu)));
        plain('r', false, Some(Step::Reverse));
        plain('<', false, Some(Step::SortByNeighbour { to_the_right: false }));
        plain('/', false, Some(Step::Filter));
        plain('/', true, Some(Step::Type('/')));
        plain('x', false, None);
        check(KeyCode::Char('c'), KeyModifiers::CONTROL, false, Some(Step::Quit));
        check(KeyCode::Char('c'), KeyModifiers::CONTROL, true, Some(Step::Quit));
        check(KeyCode::Char('u'), KeyModifiers::CONTROL, true, Some(Step::EraseAll));
        check(KeyCode::Char('u'), KeyModifiers::CONTROL, false, None);
        check(KeyCode::Esc, KeyModifiers::NONE, false, Some(Step::Quit));
        check(KeyCode::Esc, KeyModifiers::NONE, true, Some(Step::Discard));
        check(KeyCode::Enter, KeyModifiers::NONE, true, Some(Step::Keep));
        check(KeyCode::Enter, KeyModifiers::NONE, false, None);
        check(KeyCode::PageDown, KeyModifiers::NONE, false, Some(Step::Move(PAGE)));
    }

    #[test]
    fn each_column_has_a_key_of_its_own_in_its_heading() {
        for column in Column::ALL {
            assert!(column.heading().to_lowercase().contains(column.key()), "{column:?}");
            let key = KeyEvent::new(KeyCode::Char(column.key()), KeyModifiers::NONE);
            assert_eq!(step(key, false), Some(Step::SortBy(column)));
        }
    }

    #[test]
    fn letting_go_of_a_key_is_no_key() {
        let key = KeyEvent {
            kind: KeyEventKind::Release,
            ..KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)
        };
        assert_eq!(step(key, false), None);
    }
}
