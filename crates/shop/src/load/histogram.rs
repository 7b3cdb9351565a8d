//! Latencies, kept in buckets of about three percent: any number of them in the same small space.

/// A histogram of microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

/// 32 buckets for each doubling.
const FINE: u32 = 5;

impl Histogram {
    pub(crate) fn add(&mut self, micros: u64) {
        let at = bucket(micros);
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.count += 1;
        self.max = self.max.max(micros);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The value that a share of all lie at or below, in microseconds; up to a bucket's width too high.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return top(at).min(self.max);
            }
        }
        self.max
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }
}

fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(FINE + 1);
    ((shift as usize) << FINE) + (value >> shift) as usize
}

/// The greatest value of a bucket.
fn top(at: usize) -> u64 {
    let shift = (at >> FINE).saturating_sub(1);
    (((at - (shift << FINE)) as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_bucket_and_the_bucket_is_narrow() {
        let mut last = 0;
        for value in (0..5000).chain((5000..50_000_000).step_by(4999)) {
            let at = bucket(value);
            assert!(at >= last);
            last = at;
            assert!(top(at) >= value && (top(at) - value) as f64 <= value as f64 / 31.0, "{value}: {}", top(at));
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::default();
        for value in 1..=1000_u64 {
            histogram.add(value * 10);
        }
        for share in [0.5, 0.95, 0.99] {
            let exact = (share * 10_000.0) as u64;
            let found = histogram.quantile(share);
            assert!((exact..=exact + exact / 30).contains(&found), "{share}: {found}");
        }
        assert_eq!(histogram.quantile(1.0), 10_000);
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
