//! Colour, where it helps: on a terminal, unless `NO_COLOR` (no-color.org) or `TERM=dumb` says otherwise.

use std::env::var_os;
use std::io::{IsTerminal, stdout};

use anstyle::{AnsiColor, Style};
use rowlock_lens::Level;

/// The styles of a text, all plain without colour.
#[derive(Clone, Copy, Default)]
pub(crate) struct Styles {
    pub(crate) error: Style,
    pub(crate) warning: Style,
    pub(crate) title: Style,
    pub(crate) dim: Style,
    pub(crate) label: Style,
    pub(crate) fix: Style,
}

impl Styles {
    /// As this process's standard output wants it.
    pub(crate) fn of_stdout() -> Styles {
        let no_color = var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = var_os("TERM").is_some_and(|term| term == "dumb");
        if no_color || dumb || !stdout().is_terminal() { Styles::default() } else { Styles::colored() }
    }

    /// With the colour of a level for that of errors.
    pub(crate) fn at(self, level: Level) -> Styles {
        match level {
            Level::Error => self,
            Level::Warning => Styles { error: self.warning, ..self },
            Level::Note | Level::Off => Styles { error: self.label, ..self },
        }
    }

    fn colored() -> Styles {
        Styles {
            error: AnsiColor::Red.on_default().bold(),
            warning: AnsiColor::Yellow.on_default().bold(),
            title: Style::new().bold(),
            dim: Style::new().dimmed(),
            label: AnsiColor::Blue.on_default().bold(),
            fix: AnsiColor::Green.on_default(),
        }
    }
}
