// The console's part of a plot: the reports in the visible range, a link that compares its ends, and an address that
// restores the range.
const rangeText = document.getElementById("range-text"), links = document.getElementById("range-links");
const compareLink = document.getElementById("range-compare"), rest = document.getElementById("range-rest");
// Scrolls charts that do not fit to their newest values.
for (const figure of figures) figure.scrollLeft = figure.scrollWidth;
if (rangeText) {
  const rows = [...document.querySelectorAll("#range tr[data-place]")];
  const whole = rangeText.textContent, wasOpen = rest?.open, address = location.href;
  const timeOf = (row) => row.querySelector("time").dateTime.slice(0, 10);
  const idOf = (row) => row.querySelector("a").pathname.split("/").pop();
  const comparePath = new URL(compareLink.href).pathname;
  told = (range) => {
    const shown = rows.filter((row) => {
      const place = Number(row.dataset.place);
      row.hidden = range !== null && (place < range[0] || place > range[1]);
      return !row.hidden;
    });
    rangeText.textContent = range ? `${fixed(shown.length, 0)} of ${whole} in the range` : whole;
    if (rest) {
      // Unfolds hidden reports while a search matches them.
      rest.hidden = ![...rest.querySelectorAll("tr[data-place]")].some((row) => !row.hidden);
      rest.open = range ? true : wasOpen;
    }
    const [last, first] = [shown[0], shown.at(-1)];
    links.hidden = !range || shown.length < 2;
    if (!links.hidden) compareLink.href = `${comparePath}/${idOf(first)}..${idOf(last)}`;
    const next = new URL(address);
    if (range && first) {
      next.searchParams.set("from", timeOf(first));
      next.searchParams.set("to", timeOf(last));
    }
    history.replaceState(null, "", next);
  };
}
