// Sorts a table on the client. Without this script, the links in its header do so.
function valueOf(row, column) {
  const cell = row.cells[column], text = cell?.dataset.value ?? cell?.textContent.trim() ?? "";
  return { text, number: text === "" ? NaN : Number(text) };
}
function compare(a, b) {
  if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return a.number - b.number;
  return a.text.localeCompare(b.text, "en", { numeric: true });
}
function sort(table, heading, column) {
  const isNumber = heading.classList.contains("number"), sorted = heading.ariaSort;
  const isDescending = sorted === "ascending" || (!sorted && isNumber);
  const body = table.tBodies[0], rows = [...body.rows].map((row) => ({ row, value: valueOf(row, column) }));
  // Rows without a value come last in either order.
  const isEmpty = ({ value }) => value.text === "" || value.text === "–";
  rows.sort((a, b) => isEmpty(a) - isEmpty(b) || (isDescending ? -1 : 1) * compare(a.value, b.value));
  body.append(...rows.map(({ row }) => row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.ariaSort = isDescending ? "descending" : "ascending";
}
for (const table of document.querySelectorAll("table[data-sort]")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const link = heading.querySelector("a");
    if (!heading.textContent.trim()) return;
    const own = link || document.createElement("button");
    if (!link) {
      own.type = "button";
      own.append(...heading.childNodes);
      heading.append(own);
    }
    own.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      sort(table, heading, column);
      // The address restores the order.
      if (link) history.replaceState(null, "", link.href);
    });
  });
}
