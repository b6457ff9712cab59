//! Reports of processes about their answers to refreshes: one record per process.

use crate::engine::Changes;
use crate::{Store, StoreError, record, table};
use sealgate_domain::answers::{AnswerReport, ProcessId};

impl Store {
    /// Replaces the report of a process. `is_listed`: the expiry index has it already.
    pub async fn report_answers(
        &self,
        process: ProcessId,
        report: &AnswerReport,
        is_listed: bool,
    ) -> Result<(), StoreError> {
        let key = table::answers(process);
        let mut put = vec![(key.clone(), record::encode(report)?)];
        if !is_listed {
            put.push((table::expiry(report.expires_at, &key), Vec::new()));
        }
        self.write(Changes { put, ..Changes::default() }).await
    }

    /// Returns the last report of a process.
    pub async fn answer_report(&self, process: ProcessId) -> Result<Option<AnswerReport>, StoreError> {
        Ok(self.load(table::answers(process)).await?.map(|loaded| loaded.value))
    }
}
