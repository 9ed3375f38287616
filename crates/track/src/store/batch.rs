//! Stores documents: each validated, and several in one transaction.

use wingbeat_sql::{Connection, Fault};

use super::{
    Document, Insertion, InvalidDocument, SqlResult, Store, StoreError,
    alerts::{insert_change, validate_change},
    insert::{insert, validate},
    profiles::{insert_profile, validate_profile},
    withdrawals::{insert_withdrawal, validate_withdrawal},
};

/// Approximate memory use of a metric.
const METRIC_BYTES: usize = 256;

impl Document {
    /// Its memory use, in metrics.
    pub(super) fn metrics(&self) -> usize {
        match self {
            Self::Report(report) => report.metrics().count(),
            Self::AlertChange(_) | Self::Withdrawal(_) => 0,
            Self::Profile(profile) => profile.pprof.as_ref().map_or(0, Vec::len) / METRIC_BYTES,
        }
    }

    fn validate(&self) -> Result<(), InvalidDocument> {
        match self {
            Self::Report(report) => validate(report),
            Self::AlertChange(change) => validate_change(change),
            Self::Withdrawal(withdrawal) => validate_withdrawal(withdrawal),
            Self::Profile(profile) => validate_profile(profile),
        }
    }

    /// Stores the document in a transaction, and returns whether it is new. The inner error is about the document
    /// alone; the transaction must then be rolled back, to a savepoint or as a whole.
    pub(super) fn insert(&self, db: &Connection) -> SqlResult<Result<bool, InvalidDocument>> {
        if let Err(invalid) = self.validate() {
            return Ok(Err(invalid));
        }
        let inserted = match self {
            Self::Report(report) => insert(db, report).map(|done| done == Insertion::Stored),
            Self::AlertChange(change) => insert_change(db, change),
            Self::Withdrawal(withdrawal) => insert_withdrawal(db, withdrawal),
            Self::Profile(profile) => insert_profile(db, profile),
        };
        match inserted {
            // It has an alert of another report.
            Err(error) if error.fault() == Fault::Contradiction => {
                let reason = format!("it contradicts what is in the store: {error}");
                Ok(Err(InvalidDocument { uuid: self.uuid(), reason }))
            }
            inserted => inserted.map(Ok),
        }
    }
}

/// Maximum number of documents stored in one transaction, which blocks other writers.
const BATCH: usize = 64;

/// Number of metrics at which a batch is stored, because they are held in memory.
const BATCH_METRICS: usize = 4_096;

/// Documents to store in one transaction, each with the name of its source.
pub(super) struct Batch<T> {
    documents: Vec<(T, Document)>,
    metrics: usize,
}

impl<T> Batch<T> {
    pub(super) fn new() -> Self {
        Self { documents: Vec::new(), metrics: 0 }
    }

    /// Adds a document. Returns whether the batch should be stored now.
    pub(super) fn add(&mut self, source: T, document: Document) -> bool {
        self.metrics += document.metrics();
        self.documents.push((source, document));
        self.documents.len() >= BATCH || self.metrics >= BATCH_METRICS
    }

    /// Stores all documents in one transaction, and empties the batch. Passes on the outcome of each: whether it is
    /// new, or why it cannot be stored, which does not prevent the others.
    pub(super) fn store(
        &mut self,
        db: &Connection,
        mut each: impl FnMut(T, &Document, Result<bool, InvalidDocument>),
    ) -> SqlResult<()> {
        if self.documents.is_empty() {
            return Ok(());
        }
        let transaction = db.writing()?;
        let mut outcomes = Vec::with_capacity(self.documents.len());
        for (_, document) in &self.documents {
            transaction.execute_batch("SAVEPOINT document")?;
            let outcome = document.insert(&transaction)?;
            if outcome.is_err() {
                transaction.execute_batch("ROLLBACK TO document")?;
            }
            transaction.execute_batch("RELEASE document")?;
            outcomes.push(outcome);
        }
        transaction.commit()?;
        self.metrics = 0;
        for ((source, document), outcome) in self.documents.drain(..).zip(outcomes) {
            each(source, &document, outcome);
        }
        Ok(())
    }
}

impl Store {
    /// Stores a document durably, and returns whether it is new. [`StoreError::Invalid`] if it contradicts itself or
    /// existing data.
    pub fn take(&self, document: Document) -> Result<bool, StoreError> {
        let mut batch = Batch::new();
        batch.add((), document);
        let mut taken = Ok(false);
        let stored = batch.store(&self.connection, |(), _, outcome| taken = outcome);
        stored.map_err(self.error("storing a document"))?;
        Ok(taken?)
    }
}
