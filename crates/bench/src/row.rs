//! One row of the table of results.

use crate::work::{Ratio, Side};

/// A figure, what it is held against, and what was hoped for.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Which engine, and whether its commits are flushed.
    pub(crate) place: String,
    pub(crate) what: String,
    pub(crate) ours: String,
    pub(crate) theirs: String,
    pub(crate) ratio: Option<Ratio>,
    pub(crate) target: Option<Target>,
}

/// A goal.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) text: String,
    pub(crate) met: bool,
}

impl Row {
    /// Rates of two sides.
    pub(crate) fn rates(place: &str, what: &str, ours: &Side, theirs: &Side) -> Row {
        Row {
            place: place.to_owned(),
            what: what.to_owned(),
            ours: rate(ours.rate()),
            theirs: rate(theirs.rate()),
            ratio: Some(ours.against(theirs)),
            target: None,
        }
    }

    /// The ratio is to be at least `least`.
    pub(crate) fn at_least(mut self, least: f64) -> Row {
        let met = self.ratio.is_some_and(|ratio| round(ratio.median) >= least);
        self.target = Some(Target { text: format!(">= {least}"), met });
        self
    }

    /// As the cells of a table.
    pub(crate) fn cells(&self) -> [String; 7] {
        let (ratio, spread) = match &self.ratio {
            Some(Ratio { low, median, high }) => (number(*median), format!("{} - {}", number(*low), number(*high))),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let target = match &self.target {
            None => "reported".to_owned(),
            Some(Target { text, met: true }) => format!("{text}: met"),
            Some(Target { text, met: false }) => format!("{text}: **missed**"),
        };
        [self.place.clone(), self.what.clone(), self.ours.clone(), self.theirs.clone(), ratio, spread, target]
    }
}

/// Two places: what is printed is what is judged.
fn round(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

fn number(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// Transactions a second, with a comma a thousand.
pub(crate) fn rate(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
