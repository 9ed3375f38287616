//! Renamed things.

use wingbeat_sql::{Error, Result as SqlResult};

use super::{Kind, Registry, RegistryError};

impl Registry {
    /// Kind, name in the results and current name of each renamed thing.
    pub fn renamed(&self, project: i64) -> Result<Vec<(Kind, String, String)>, RegistryError> {
        let list = || {
            let mut statement = self.connection.prepare(
                "SELECT kind, stored, name FROM thing WHERE project = ?1 AND name <> stored",
            )?;
            let rows = statement.query_map([project], |row| {
                let word: String = row.get(0)?;
                let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
                Ok((
                    kind.ok_or(Error::content("a kind that nobody knows"))?,
                    row.get(1)?,
                    row.get(2)?,
                ))
            })?;
            rows.collect::<SqlResult<Vec<_>>>()
        };
        list().map_err(self.error("listing names"))
    }
}
