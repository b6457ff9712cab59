//! Log filter that can be changed while the program runs.
//!
//! The filter of `tracing_subscriber::reload` takes a lock for each line, which all threads would write
//! to. This filter takes none.

use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, callsite};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::{EnvFilter, registry::LookupSpan};

use crate::read_mostly::ReadMostly;

/// A filter, and the handle to change it.
#[derive(Clone)]
pub(super) struct ChangeableFilter(Arc<ReadMostly<EnvFilter>>);

impl ChangeableFilter {
    pub(super) fn new(filter: EnvFilter) -> Self {
        Self(Arc::new(ReadMostly::new(filter)))
    }

    pub(super) fn set(&self, filter: EnvFilter) {
        self.0.set(filter);
        // Each place in the code remembers whether the filter permits its lines.
        callsite::rebuild_interest_cache();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ChangeableFilter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        Layer::<S>::register_callsite(&*self.0.get(), metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        Layer::<S>::enabled(&*self.0.get(), metadata, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Layer::<S>::max_level_hint(&*self.0.get())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        Layer::<S>::on_new_span(&*self.0.get(), attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        Layer::<S>::on_record(&*self.0.get(), id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        Layer::<S>::on_enter(&*self.0.get(), id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        Layer::<S>::on_exit(&*self.0.get(), id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Layer::<S>::on_close(&*self.0.get(), id, context);
    }
}
