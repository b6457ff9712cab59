//! Clients that the configuration file defines.
//!
//! One commit creates, changes and deletes all of these clients. It expects that every compared
//! record is unchanged. If two nodes with the same file start at the same time, the second node
//! finds no difference and writes nothing.

use std::collections::HashSet;

use crate::engine::Changes;
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::client_logouts::index_features;
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_rules;
use sealgate_domain::time::UnixTime;

/// Definition of a client in the configuration file.
#[derive(Debug, Clone, Copy)]
pub struct ClientDefinition<'a> {
    /// Record without times and incarnation.
    pub client: &'a Client,
    /// Whether the definition may replace a client with the same id that was registered in another
    /// way.
    pub adopt: bool,
}

/// Result of [`Store::define_clients`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum DefineOutcome {
    /// The stored clients equal their definitions.
    Defined(ClientsDefined),
    /// These clients were registered in another way and are not adopted. Nothing was written.
    Taken(Vec<ClientId>),
}

/// Changes that the commit made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientsDefined {
    pub created: Vec<ClientId>,
    /// Clients with the names of their changed settings.
    pub changed: Vec<(ClientId, Vec<&'static str>)>,
    /// Deleted clients. The caller must end their grants.
    pub removed: Vec<ClientId>,
}

/// Changes that are being collected.
#[derive(Default)]
struct Plan {
    commit: Changes,
    defined: ClientsDefined,
    conflicting_ids: Vec<ClientId>,
    /// Adopted clients, as they were before.
    adopted: Vec<Client>,
}

impl Store {
    /// Changes the stored clients of the configuration file to these definitions, in one commit.
    ///
    /// The configuration limits the number of definitions. New clients get `incarnation`.
    ///
    /// # Errors
    /// Returns the store's error. The changes are one commit, so either all were committed or none.
    pub async fn define_clients(
        &self,
        definitions: &[ClientDefinition<'_>],
        now: UnixTime,
        incarnation: u32,
    ) -> Result<DefineOutcome, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let mut plan = Plan::default();
            for definition in definitions {
                let stored = self.load::<Client>(table::client(&definition.client.id)).await?;
                plan.define(*definition, stored, now, incarnation)?;
            }
            if !plan.conflicting_ids.is_empty() {
                return Ok(DefineOutcome::Taken(plan.conflicting_ids));
            }
            self.plan_removals(definitions, &mut plan).await?;
            if plan.commit.put.is_empty() && plan.commit.delete.is_empty() {
                return Ok(DefineOutcome::Defined(plan.defined));
            }
            if self.commit(plan.commit).await? == Committed::Yes {
                for client in &plan.adopted {
                    self.registration_gone(client);
                }
                return Ok(DefineOutcome::Defined(plan.defined));
            }
        }
        Err(StoreError::Contended)
    }

    /// Returns the existing clients with these ids that the configuration file has not defined.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn clients_not_defined(&self, ids: impl Iterator<Item = &ClientId>) -> Result<Vec<ClientId>, StoreError> {
        let mut registered = Vec::new();
        for id in ids {
            let client = self.client(id).await?;
            registered.extend(client.filter(|client| !client.from_configuration).map(|client| client.id));
        }
        Ok(registered)
    }

    /// Deletes the clients that the file no longer defines.
    async fn plan_removals(&self, definitions: &[ClientDefinition<'_>], plan: &mut Plan) -> Result<(), StoreError> {
        let defined_ids: HashSet<&ClientId> = definitions.iter().map(|definition| &definition.client.id).collect();
        let mut after = None;
        loop {
            let rows = self.engine.scan(&table::all(Table::Client), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = Some(last.clone());
            // Ignore unreadable clients, which the start has logged.
            let clients = rows.into_iter().filter_map(|(key, bytes)| record::decode::<Client>(&key, bytes).ok());
            for loaded in clients.filter(|loaded| loaded.value.from_configuration) {
                if !defined_ids.contains(&loaded.value.id) {
                    plan.commit.expect.push(loaded.unchanged());
                    plan.commit.delete.push(loaded.key().clone());
                    index_features(&mut plan.commit, Some(&loaded.value), None);
                    plan.defined.removed.push(loaded.value.id);
                }
            }
        }
    }
}

impl Plan {
    fn define(
        &mut self,
        definition: ClientDefinition<'_>,
        stored: Option<Loaded<Client>>,
        now: UnixTime,
        incarnation: u32,
    ) -> Result<(), StoreError> {
        let id = &definition.client.id;
        let next = definition.client.defined_over(stored.as_ref().map(|stored| &stored.value), now, incarnation);
        let changes = match stored {
            None => {
                self.defined.created.push(id.clone());
                let mut changes = record::create(table::client(id), &next)?;
                index_features(&mut changes, None, Some(&next));
                changes
            }
            Some(stored) if !stored.value.from_configuration && !definition.adopt => {
                self.conflicting_ids.push(id.clone());
                return Ok(());
            }
            Some(stored) if stored.value == next => return Ok(()),
            Some(stored) => {
                let adopted = (!stored.value.from_configuration).then_some("adopted");
                let settings = client_rules::definition_changes(&stored.value, &next);
                self.defined.changed.push((id.clone(), adopted.into_iter().chain(settings).collect()));
                let mut replacement = record::replace(&stored, &next)?;
                index_features(&mut replacement, Some(&stored.value), Some(&next));
                self.adopted.extend(adopted.map(|_| stored.value));
                replacement
            }
        };
        self.commit.merge(changes);
        Ok(())
    }
}
