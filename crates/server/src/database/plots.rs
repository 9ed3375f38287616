//! Pinned plots on a project's start page.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;
use wingbeat_sql::{Connection, OptionalExtension as _, Result as SqlResult, Row, Time, params};

use super::{Database, StoreError, entities::escaped};

/// Horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum XAxis {
    #[default]
    DateTime,
    Version,
}

/// Scale of the vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum YAxis {
    #[default]
    Auto,
    Linear,
    Log,
}

/// Settings of a plot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct PlotSettings {
    #[schema(pattern = r"\S", max_length = 64)]
    pub title: Option<String>,
    pub lower_value: bool,
    pub upper_value: bool,
    pub lower_boundary: bool,
    pub upper_boundary: bool,
    pub x_axis: XAxis,
    #[serde(default)]
    pub y_axis: YAxis,
    /// Length of the time range before now, in seconds.
    #[serde(rename = "window")]
    pub window_s: u32,
}

/// A pinned plot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedPlot {
    /// Row.
    pub id: i64,
    pub uuid: Uuid,
    pub settings: PlotSettings,
    /// Rows of entities, in order.
    pub entities: Vec<i64>,
    pub created: OffsetDateTime,
    pub modified: OffsetDateTime,
}

/// Filter and order of plots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlotFilter<'a> {
    pub title: Option<&'a str>,
    pub search: Option<&'a str>,
    pub by_title: bool,
    pub descending: bool,
    pub limit: u64,
    pub offset: u64,
}

const COLUMNS: &str =
    "id, uuid, title, lower_value, upper_value, lower_boundary, upper_boundary, x_axis,
     y_axis, window_s, created_ns, modified_ns";

impl Database {
    /// Plots of a project, and their number without the limit.
    pub fn plots(
        &self,
        project: i64,
        filter: PlotFilter<'_>,
    ) -> Result<(Vec<PinnedPlot>, u64), StoreError> {
        self.doing("listing plots", || {
            let sought =
                filter.search.map(|text| format!("%{}%", escaped(text).to_ascii_lowercase()));
            let condition = "project = ?1 AND (title = ?2 OR ?2 IS NULL)
                 AND (lower(title) LIKE ?3 ESCAPE '\\' OR ?3 IS NULL)";
            let values = params![project, filter.title, sought];
            let sql = format!("SELECT count(*) FROM plot WHERE {condition}");
            let count: i64 = self.db().query_row(&sql, values, |row| row.get(0))?;
            let column = if filter.by_title { "title" } else { "position" };
            // Makes both engines sort missing titles first.
            let (order, nulls) =
                if filter.descending { ("DESC", "LAST") } else { ("ASC", "FIRST") };
            let (limit, offset) = (filter.limit, filter.offset);
            let sql = format!(
                "SELECT {COLUMNS} FROM plot WHERE {condition}
                 ORDER BY {column} {order} NULLS {nulls}, id {order} LIMIT {limit} OFFSET {offset}"
            );
            let mut statement = self.db().prepare(&sql)?;
            let found = statement.query_map(values, plot)?;
            let found: SqlResult<Vec<_>> = found.map(|it| with_entities(self.db(), it?)).collect();
            Ok((found?, count.unsigned_abs()))
        })
    }

    /// The plot with this UUID.
    pub fn plot(&self, project: i64, uuid: Uuid) -> Result<Option<PinnedPlot>, StoreError> {
        self.doing("looking for a plot", || {
            let sql = format!("SELECT {COLUMNS} FROM plot WHERE project = ?1 AND uuid = ?2");
            let mut statement = self.db().prepare(&sql)?;
            let found = statement.query_row(params![project, uuid], plot).optional()?;
            found.map(|it| with_entities(self.db(), it)).transpose()
        })
    }

    /// Pins a plot at an index, by default the last.
    pub fn create_plot(
        &self,
        project: i64,
        settings: &PlotSettings,
        entities: &[i64],
        index: Option<u8>,
        now: OffsetDateTime,
    ) -> Result<Uuid, StoreError> {
        self.write("pinning a plot", |db| {
            let uuid = Uuid::now_v7();
            let id: i64 = db.query_row(
                "INSERT INTO plot (uuid, project, position, title, lower_value, upper_value,
                     lower_boundary, upper_boundary, x_axis, y_axis, window_s, created_ns, modified_ns)
                 VALUES (?1, ?2, -1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11)
                 RETURNING id",
                params![
                    uuid,
                    project,
                    settings.title,
                    settings.lower_value,
                    settings.upper_value,
                    settings.lower_boundary,
                    settings.upper_boundary,
                    settings.x_axis,
                    settings.y_axis,
                    settings.window_s,
                    Time(now)
                ],
                |row| row.get(0),
            )?;
            for (position, entity) in (0_i64..).zip(entities) {
                db.execute(
                    "INSERT INTO plot_entity (plot, position, entity) VALUES (?1, ?2, ?3)",
                    params![id, position, entity],
                )?;
            }
            place(db, project, id, index.map_or(usize::MAX, usize::from))?;
            Ok(uuid)
        })
    }

    /// Changes a plot's title, axes, time range and index.
    pub fn change_plot(
        &self,
        project: i64,
        plot: &PinnedPlot,
        index: Option<u8>,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        self.write("changing a plot", |db| {
            db.execute(
                "UPDATE plot SET title = ?2, x_axis = ?3, y_axis = ?4, window_s = ?5, modified_ns = ?6
                 WHERE id = ?1",
                params![
                    plot.id,
                    plot.settings.title,
                    plot.settings.x_axis,
                    plot.settings.y_axis,
                    plot.settings.window_s,
                    Time(now)
                ],
            )?;
            if let Some(index) = index {
                place(db, project, plot.id, index.into())?;
            }
            Ok(())
        })
    }

    /// Deletes a plot.
    pub fn delete_plot(&self, id: i64) -> Result<(), StoreError> {
        self.execute("deleting a plot", "DELETE FROM plot WHERE id = ?1", [id])
    }
}

/// Moves a plot to an index within its project, and renumbers all.
fn place(db: &Connection, project: i64, plot: i64, index: usize) -> SqlResult<()> {
    let sql = "SELECT id FROM plot WHERE project = ?1 AND id <> ?2 ORDER BY position, id";
    let mut statement = db.prepare(sql)?;
    let others = statement.query_map([project, plot], |row| row.get(0))?;
    let mut order = others.collect::<SqlResult<Vec<i64>>>()?;
    order.insert(index.min(order.len()), plot);
    for (position, id) in (0_i64..).zip(order) {
        db.prepare("UPDATE plot SET position = ?2 WHERE id = ?1")?.execute([id, position])?;
    }
    Ok(())
}

fn plot(row: &Row<'_>) -> SqlResult<PinnedPlot> {
    Ok(PinnedPlot {
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        settings: PlotSettings {
            title: row.get("title")?,
            lower_value: row.get("lower_value")?,
            upper_value: row.get("upper_value")?,
            lower_boundary: row.get("lower_boundary")?,
            upper_boundary: row.get("upper_boundary")?,
            x_axis: row.get("x_axis")?,
            y_axis: row.get("y_axis")?,
            window_s: row.get("window_s")?,
        },
        entities: Vec::new(),
        created: row.time("created_ns")?,
        modified: row.time("modified_ns")?,
    })
}

fn with_entities(db: &Connection, plot: PinnedPlot) -> SqlResult<PinnedPlot> {
    let sql = "SELECT entity FROM plot_entity WHERE plot = ?1 ORDER BY position";
    let mut statement = db.prepare(sql)?;
    let entities = statement.query_map([plot.id], |row| row.get(0))?;
    Ok(PinnedPlot { entities: entities.collect::<SqlResult<_>>()?, ..plot })
}
