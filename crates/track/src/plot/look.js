// Searches panels, navigates between their values, and describes one. Independent of the page.
function significant(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 1e-6 || size >= 1e12) return exponential(value, 3);
  // The digits before the point after rounding: 999.96 has four.
  return fixed(value, clamp(3 - Math.floor(Math.log10(Number(size.toPrecision(4)))), 0, 9));
}
function valueText(panel, value) {
  const [size, symbol] = rung(panel.units, value);
  const isWhole = panel.units.whole && Number.isSafeInteger(value);
  const number = isWhole && size === 1 ? fixed(value, 0) : significant(value / size);
  return `${number} ${symbol}`.trim() + (isWhole && size !== 1 ? ` (${fixed(value, 0)})` : "");
}
// Whether a panel matches a query: each word occurs in its benchmark, its measure or the names of its lines.
function isFound(panel, query) {
  const text = [panel.name, ...panel.lines.map((line) => line.name)].join("\n").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
// The dot that a key moves to: [line, dot]. Null for other keys.
function moved(data, panel, [line, dot], key) {
  const dots = dotsOf(data, panel.lines[line]);
  const to = { ArrowLeft: dot - 1, ArrowRight: dot + 1, Home: 0, End: dots.length - 1 }[key];
  if (to !== undefined) return [line, clamp(to, 0, dots.length - 1)];
  const next = { ArrowUp: line - 1, ArrowDown: line + 1 }[key];
  if (next === undefined) return null;
  const other = clamp(next, 0, panel.lines.length - 1), others = dotsOf(data, panel.lines[other]);
  const distance = (index) => Math.abs(others[index].place - dots[dot].place);
  return [other, others.reduce((best, _, index) => distance(index) < distance(best) ? index : best, 0)];
}
// The dot nearest to a position in a panel: [line, dot].
function nearest(data, panel, range, at) {
  const axis = axisOf(data, panel, range), y = axis && yOf(panel, axis);
  const scale = data.width / (range[1] - range[0]), target = range[0] + (at.x - data.left) / scale;
  let best = null;
  panel.lines.forEach((line, number) => {
    dotsOf(data, line).forEach((dot, index) => {
      if (!axis || dot.place < range[0] || dot.place > range[1]) return;
      // A column is easier to hit than a height.
      const distance = Math.hypot((dot.place - target) * scale * 3, y(dot.value) - at.y);
      if (!best || distance < best.distance) best = { distance, at: [number, index] };
    });
  });
  return best && best.at;
}
// Description of a dot, as markup.
function about(data, panel, [line, index]) {
  const { name } = panel.lines[line], dot = dotsOf(data, panel.lines[line])[index];
  const [seconds, hash, branch, testbed, iterations, news] = data.stamps[dot.stamp];
  const rows = [`<b>${escape(panel.name)}</b><b>${escape(name)}</b><span class="value">${escape(valueText(panel, dot.value))}</span>`];
  const quiet = (row) => rows.push(`<span class="quiet">${escape(row)}</span>`);
  const between = (low, high) => [low, high].map((end) => end == null ? "–" : valueText(panel, end)).join(" … ");
  if (dot.lower != null || dot.upper != null) quiet(`spread ${between(dot.lower, dot.upper)}`);
  if (dot.lowerLimit != null || dot.upperLimit != null) quiet(`limits ${between(dot.lowerLimit, dot.upperLimit)}`);
  const [limit, status] = dot.alert ? dot.alert.split(" ") : [];
  const alert = !limit ? null : status === "active" ? `alert: ${limit === "upper" ? "above" : "below"} the limit` : `alert, ${status}`;
  const verdict = [dot.outcome, alert].filter(Boolean).join(", ");
  if (verdict) rows.push(`<span class="${status === "active" ? "bad" : ""}">${escape(verdict)}</span>`);
  quiet(`${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`);
  quiet(`${data.texts[branch]}${hash ? ` at ${hash}` : ""}, ${data.texts[testbed]}`);
  if (iterations > 1) quiet(`iteration ${dot.iteration + 1} of ${iterations}`);
  if (news) quiet(`environment: ${news}`);
  return rows.join("<br>");
}
