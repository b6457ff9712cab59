//! Series that each thread counts in its own memory. They are summed when they are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Histogram, Metric, MetricFamily, MetricType};
use thread_local::ThreadLocal;

/// Counters or histograms with labels, one set for each thread.
///
/// Requests of all threads would otherwise write to the same counters. The counts of a thread that has
/// ended remain.
pub(super) struct OfThreads<V: Send>(Arc<Sets<V>>);

struct Sets<V: Send> {
    /// Used for the description, and if no set can be created.
    first: V,
    create: Box<dyn Fn() -> Result<V, prometheus::Error> + Send + Sync>,
    all: ThreadLocal<V>,
}

impl<V: Collector> OfThreads<V> {
    /// Creates the series. `create` creates an equal set for each thread.
    ///
    /// # Errors
    /// The error of `create`.
    pub(super) fn new(
        create: impl Fn() -> Result<V, prometheus::Error> + Send + Sync + 'static,
    ) -> Result<Self, prometheus::Error> {
        Ok(Self(Arc::new(Sets { first: create()?, create: Box::new(create), all: ThreadLocal::new() })))
    }

    /// Returns the set of this thread.
    pub(super) fn here(&self) -> &V {
        // The arguments of `create` are those with which it has created `first`.
        self.0.all.get_or_try(&self.0.create).unwrap_or(&self.0.first)
    }
}

impl<V: Send> Clone for OfThreads<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: Collector> Collector for OfThreads<V> {
    fn desc(&self) -> Vec<&Desc> {
        self.0.first.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.0.first.collect();
        for set in &self.0.all {
            for (sum, family) in families.iter_mut().zip(set.collect()) {
                add(sum, family);
            }
        }
        families
    }
}

/// Adds the values of `family` to those with the same labels in `sum`.
fn add(sum: &mut MetricFamily, mut family: MetricFamily) {
    let kind = sum.get_field_type();
    let labels = |metric: &Metric| -> Vec<String> {
        metric.get_label().iter().map(|label| format!("{}={}", label.name(), label.value())).collect()
    };
    let places: BTreeMap<_, _> = sum.get_metric().iter().map(labels).zip(0..).collect();
    for metric in family.take_metric() {
        let known = places.get(&labels(&metric)).copied();
        match known.and_then(|place: usize| sum.mut_metric().get_mut(place)) {
            Some(known) if kind == MetricType::HISTOGRAM => {
                known.set_histogram(sum_of_histograms(known.get_histogram(), metric.get_histogram()));
            }
            Some(known) => {
                let mut counter = Counter::default();
                counter.set_value(known.get_counter().get_value() + metric.get_counter().get_value());
                known.set_counter(counter);
            }
            None => sum.mut_metric().push(metric),
        }
    }
}

/// Returns the sum of histograms with the same bounds.
fn sum_of_histograms(one: &Histogram, other: &Histogram) -> Histogram {
    let buckets = one.get_bucket().iter().zip(other.get_bucket()).map(|(one, other)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(one.upper_bound());
        bucket.set_cumulative_count(one.cumulative_count() + other.cumulative_count());
        bucket
    });
    let mut sum = Histogram::default();
    sum.set_bucket(buckets.collect());
    sum.set_sample_count(one.get_sample_count() + other.get_sample_count());
    sum.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
    sum
}

#[cfg(test)]
mod tests {
    use std::thread;

    use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

    use super::*;

    #[test]
    fn the_counts_of_all_threads_are_summed() {
        let counters = OfThreads::new(|| IntCounterVec::new(Opts::new("answers", "Answers."), &["app", "status"]));
        let seconds = OfThreads::new(|| {
            HistogramVec::new(HistogramOpts::new("seconds", "Time.").buckets(vec![0.1, 1.0]), &["app"])
        });
        let (counters, seconds) = (counters.unwrap(), seconds.unwrap());
        thread::scope(|scope| {
            for number in 0..4_u8 {
                let (counters, seconds) = (&counters, &seconds);
                scope.spawn(move || {
                    for _ in 0..10 {
                        counters.here().with_label_values(&["wiki", "200"]).inc();
                    }
                    counters.here().with_label_values(&["wiki", if number < 2 { "404" } else { "503" }]).inc();
                    seconds.here().with_label_values(&["wiki"]).observe(f64::from(number) * 0.5);
                });
            }
        });
        let registry = Registry::new();
        registry.register(Box::new(counters.clone())).unwrap();
        registry.register(Box::new(seconds.clone())).unwrap();
        let text = || {
            let mut text = Vec::new();
            TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        for line in [
            "answers{app=\"wiki\",status=\"200\"} 40",
            "answers{app=\"wiki\",status=\"404\"} 2",
            "answers{app=\"wiki\",status=\"503\"} 2",
            "seconds_bucket{app=\"wiki\",le=\"0.1\"} 1",
            "seconds_bucket{app=\"wiki\",le=\"1\"} 3",
            "seconds_bucket{app=\"wiki\",le=\"+Inf\"} 4",
            "seconds_sum{app=\"wiki\"} 3",
            "seconds_count{app=\"wiki\"} 4",
        ] {
            assert!(text().contains(&format!("{line}\n")), "{line}\n{}", text());
        }
        assert_eq!(text(), text());
    }
}
