//! What is called differently now than in the results.

use super::{Kind, Registry, RegistryError};

impl Registry {
    /// Kind, name in the results and present name of each thing whose names differ.
    pub fn renamed(&self, project: i64) -> Result<Vec<(Kind, String, String)>, RegistryError> {
        let list = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT kind, stored, name FROM thing WHERE project = ?1 AND name <> stored",
            )?;
            let rows = statement.query_map([project], |row| {
                let word: String = row.get(0)?;
                let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
                Ok((kind.ok_or(rusqlite::Error::InvalidQuery)?, row.get(1)?, row.get(2)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        list().map_err(self.error("listing names"))
    }
}
