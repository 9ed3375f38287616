// The console's part of a plot: the reports in the visible range, a link that compares its ends, and an address that
// restores the range: `zoom` has the times of its first and last report.
const rangeText = document.getElementById("range-text"), links = document.getElementById("range-links");
const compareLink = document.getElementById("range-compare"), rest = document.getElementById("range-rest");
const comparePath = compareLink && new URL(compareLink.href).pathname;
// Small changes within this time are one step of the history.
const STEADY_MS = 1000;
// Scrolls charts that do not fit to their newest values.
for (const figure of figures) figure.scrollLeft = figure.scrollWidth;
const secondsOf = (column) => data.stamps[startOf(data, column)][0];
const written = (seconds) => new Date(seconds * 1000).toISOString().replace(".000", "");
function zoomOf([low, high]) {
  const ends = [Math.max(Math.ceil(low), 0), Math.min(Math.floor(high), widthOf(data) - 1)];
  return ends.map((column) => written(secondsOf(column))).join("..");
}
const zoomIn = (address) => new URL(address).searchParams.get("zoom") ?? "";
function rangeOf(zoom) {
  const [from, to] = zoom.split("..").map((time) => Date.parse(time) / 1000);
  const columns = Array.from({ length: widthOf(data) }, (_, column) => secondsOf(column));
  const first = columns.findIndex((time) => time >= from), last = columns.findLastIndex((time) => time <= to);
  return first < 0 || last < first ? all : [first - 0.5, last + 0.5];
}
function list(range) {
  const rows = [...document.querySelectorAll("#range tr[data-place]")];
  const shown = rows.filter((row) => {
    const place = Number(row.dataset.place);
    row.hidden = range !== null && (place < range[0] || place > range[1]);
    return !row.hidden;
  });
  rangeText.textContent = range ? `${fixed(shown.length, 0)} of ${fixed(rows.length, 0)} in the range` : fixed(rows.length, 0);
  if (rest) {
    // Unfolds hidden reports while a search matches them.
    rest.hidden = ![...rest.querySelectorAll("tr[data-place]")].some((row) => !row.hidden);
    if (range) rest.open = true;
  }
  const idOf = (row) => row.querySelector("a").pathname.split("/").pop();
  links.hidden = !range || shown.length < 2;
  if (!links.hidden) compareLink.href = `${comparePath}/${idOf(shown.at(-1))}..${idOf(shown[0])}`;
}
// Forms and links of the page keep the zoom.
function keepIn(zoom) {
  for (const field of document.querySelectorAll("input[name=zoom]")) field.value = zoom;
  for (const link of document.querySelectorAll("a[data-zooms]")) link.href = withZoom(link.href, zoom);
}
function withZoom(address, zoom) {
  const next = new URL(address);
  if (next.searchParams.has("zoom")) next.searchParams.delete("zoom");
  if (zoom) next.search += `${next.search ? "&" : ""}zoom=${zoom}`;
  return next.href;
}
let steadyAt = -Infinity;
// A page that is embedded has the history of the page around it.
if (rangeText) told = (range, isSteady) => {
  list(range);
  const zoom = range ? zoomOf(range) : "", isNext = isSteady && performance.now() - steadyAt < STEADY_MS;
  keepIn(zoom);
  if (zoom !== zoomIn(location.href)) {
    history[isNext ? "replaceState" : "pushState"](null, "", withZoom(location.href, zoom));
  }
  steadyAt = isSteady ? performance.now() : -Infinity;
};
function restore() {
  show(rangeOf(zoomIn(location.href)));
  if (!rangeText) return;
  list(range === all ? null : range);
  keepIn(range === all ? "" : zoomOf(range));
}
addEventListener("popstate", restore);
restore();
