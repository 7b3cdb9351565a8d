//! Which hazards are told, and how bad each is taken to be.

use std::collections::HashMap;

use crate::finding::Level;
use crate::hazard::{HAZARDS, Hazard};

/// The level at which each hazard is told. By default its own: see [`Hazard::default_level`].
///
/// ```
/// use rowlock_lens::{Level, Levels};
///
/// let mut levels = Levels::default();
/// assert_eq!(levels.of("order-inversion", Level::Error), Level::Error);
/// assert_eq!(levels.of("unbounded-wait", Level::Note), Level::Off);
/// levels.set("order-inversion", Level::Note)?;
/// assert_eq!(levels.of("order-inversion", Level::Error), Level::Note);
///
/// let levels = Levels::only(["unbounded-wait"])?;
/// assert_eq!(levels.of("unbounded-wait", Level::Note), Level::Note);
/// assert_eq!(levels.of("order-inversion", Level::Error), Level::Off);
/// assert!(Levels::only(["order-inversoin"]).is_err());
/// # Ok::<_, String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Levels {
    given: HashMap<&'static str, Level>,
    /// These alone; empty: all.
    only: Vec<&'static str>,
}

impl Levels {
    /// These hazards alone, at their own levels; those that are told on request, too.
    ///
    /// # Errors
    ///
    /// A name that is no hazard's.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Levels, String> {
        let mut levels = Levels::default();
        levels.limit(names)?;
        Ok(levels)
    }

    /// Leaves only these hazards, at the levels that they have; those that are told on request, too.
    ///
    /// # Errors
    ///
    /// A name that is no hazard's.
    pub fn limit<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        self.only = names.into_iter().map(|name| named(name).map(|hazard| hazard.name)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Tells a hazard at another level than its own.
    ///
    /// # Errors
    ///
    /// A name that is no hazard's.
    pub fn set(&mut self, name: &str, level: Level) -> Result<(), String> {
        self.given.insert(named(name)?.name, level);
        Ok(())
    }

    /// The level at which a finding is told that is `own` by itself.
    pub fn of(&self, hazard: &str, own: Level) -> Level {
        let asked = self.only.contains(&hazard);
        match self.given.get(hazard) {
            _ if !self.only.is_empty() && !asked => Level::Off,
            Some(level) => *level,
            None if !asked && named(hazard).is_ok_and(|hazard| hazard.on_request) => Level::Off,
            None => own,
        }
    }
}

fn named(name: &str) -> Result<&'static Hazard, String> {
    HAZARDS.iter().find(|hazard| hazard.name == name).ok_or_else(|| {
        let names: Vec<&str> = HAZARDS.iter().map(|hazard| hazard.name).collect();
        format!("no hazard is called `{name}`; there are {}", names.join(", "))
    })
}
