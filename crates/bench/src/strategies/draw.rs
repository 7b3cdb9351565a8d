//! Which rows callers want.

use std::sync::LazyLock;

use rand::{Rng, distr::Distribution, rngs::StdRng};
use rand_distr::Zipf;

use crate::{ground::ROWS, work::distinct};

/// How the wanted rows are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Spread {
    /// All want one row (ways that take two rows: two of twenty)
    Hot,
    /// The n-th row is wanted 1/n as often as the first
    Zipf,
    /// Each row as often as any other
    Uniform,
}

/// As many rows as ways with two rows draw from where they are hot.
const WARM: i64 = 20;

impl Spread {
    pub(crate) const ALL: [Spread; 3] = [Spread::Hot, Spread::Zipf, Spread::Uniform];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Spread::Hot => "hot",
            Spread::Zipf => "Zipf",
            Spread::Uniform => "uniform",
        }
    }

    /// One row, or two different ones in random order.
    pub(crate) fn draw(self, count: usize, random: &mut StdRng) -> Vec<i64> {
        distinct(count, || match self {
            Spread::Hot if count == 1 => 1,
            Spread::Hot => random.random_range(1..=WARM),
            Spread::Zipf => ZIPF.sample(random) as i64,
            Spread::Uniform => random.random_range(1..=ROWS),
        })
    }
}

#[allow(clippy::expect_used, reason = "its parameters are constants that it takes")]
static ZIPF: LazyLock<Zipf<f64>> =
    LazyLock::new(|| Zipf::new(ROWS as f64, 1.0).expect("rows, and an exponent above zero"));
