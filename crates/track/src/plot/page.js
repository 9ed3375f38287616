// Hover and zoom. Without this script the picture is complete; with it a part can be drawn anew.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const svg = document.querySelector("svg.wingbeat");
const tip = document.getElementById("tip");
const reset = document.getElementById("reset");
const [STAMP, ITERATION, VALUE, LOWER, UPPER, LOWER_LIMIT, UPPER_LIMIT, OUTCOME, ALERT] = Array(9).keys();
const all = [-0.5, data.stamps.length - 0.5];
const right = data.left + data.width;
let range = all;
if (!data.panels.length) return;
document.getElementById("tools").hidden = false;
if (data.thinned) document.querySelector("#tools span").append(" Of the many values only extremes are in this page.");

const px = (value) => String(Math.round(value * 10) / 10);
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => String(text).replace(/[&<>"']/g, (c) => escapes[c]);
const minus = (text) => text.replace(/-/g, "−");
const exponential = (value, digits) => minus(value.toExponential(digits).replace("+", ""));
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// Numbers are said as the rest of wingbeat says them: crates/track/src/output/number.
const fixed = (value, decimals) => minus(value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
const whole = (value) => fixed(value, 0);
function significant(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 1e-6 || size >= 1e12) return exponential(value, 3);
  // The digits before the point are those after rounding: 999.96 has four.
  return fixed(value, clamp(3 - Math.floor(Math.log10(Number(size.toPrecision(4)))), 0, 9));
}
function rung(units, value) {
  const size = Math.abs(value);
  if (!(size > 0) || (units.whole && size < 1e7)) return units.rungs.find((one) => one[0] === 1) || [1, ""];
  if (size > units.rungs.at(-1)[0] * 1e6) return units.rungs.find((one) => one[0] === 1) || [1, ""];
  return units.rungs.findLast((one) => size >= one[0] * 0.99995) || units.rungs[0];
}
function text(panel, value) {
  const [size, symbol] = rung(panel.units, value);
  const isWhole = panel.units.whole && Number.isSafeInteger(value);
  const number = isWhole && size === 1 ? whole(value) : significant(value / size);
  return `${number} ${symbol}`.trim() + (isWhole && size !== 1 ? ` (${whole(value)})` : "");
}
function place(dot) {
  const iterations = Math.max(data.stamps[dot[STAMP]][4], 1);
  return dot[STAMP] + 0.8 * ((dot[ITERATION] + 0.5) / iterations - 0.5);
}
const x = (reports) => data.left + data.width * (reports - range[0]) / (range[1] - range[0]);
const reportsAt = (px) => range[0] + (px - data.left) / data.width * (range[1] - range[0]);

// The dots in sight, and their neighbours on both sides.
function visible(line) {
  const first = line.dots.findIndex((dot) => place(dot) >= range[0]);
  const last = line.dots.findLastIndex((dot) => place(dot) <= range[1]);
  if (first < 0 || last < 0) return first < 0 && last < 0 ? [0, 0] : first < 0 ? [last, last + 1] : [0, first + 1];
  return [Math.max(Math.min(first, last + 1) - 1, 0), Math.min(Math.max(last, first - 1) + 2, line.dots.length)];
}
function axisOf(panel) {
  let low = Infinity, high = -Infinity, outerLow = Infinity, outerHigh = -Infinity;
  for (const line of panel.lines) for (const dot of line.dots) {
    if (place(dot) < range[0] || place(dot) > range[1]) continue;
    low = Math.min(low, dot[VALUE]);
    high = Math.max(high, dot[VALUE]);
    for (const around of [dot[LOWER], dot[UPPER], dot[LOWER_LIMIT], dot[UPPER_LIMIT]]) {
      if (around == null) continue;
      outerLow = Math.min(outerLow, around);
      outerHigh = Math.max(outerHigh, around);
    }
  }
  if (low > high) return null;
  const floor = Math.min(low, outerLow) >= 0 ? 0 : -Infinity;
  const scale = Math.max(Math.abs(low), Math.abs(high)) || 1;
  [low, high] = [low / scale, high / scale];
  const missing = Math.max(panel.span - (high - low), 0);
  [low, high] = [low - missing / 2, high + missing / 2];
  const span = high > low ? high - low : 0.1;
  if (!(high > low)) [low, high] = [low - 0.05, high + 0.05];
  const extra = span * 0.75;
  low = clamp(outerLow / scale, low - extra, low);
  high = clamp(outerHigh / scale, high, high + extra);
  const margin = 0.06 * (high - low);
  return { low: Math.max(low - margin, floor), high: high + margin, scale };
}
function yOf(panel, axis) {
  const share = (value) => (value / axis.scale - axis.low) / (axis.high - axis.low);
  return (value) => panel.top + data.height * (1 - clamp(share(value), -2, 3));
}
function ticks(axis, unit) {
  const low = axis.low * (axis.scale / unit), high = axis.high * (axis.scale / unit);
  const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((round) => raw / power <= round * 1.000001) || 10);
  const decimals = Math.max(-Math.floor(Math.log10(step)), 0);
  const isPlain = decimals <= 9 && Math.max(Math.abs(low), Math.abs(high)) < 1e12;
  const marks = [];
  for (let index = 0, first = Math.ceil(low / step); index <= 12; index++) {
    const value = (first + index) * step;
    if (!(value <= high)) break;
    marks.push([value * unit, value === 0 ? "0" : isPlain ? fixed(value, decimals) : exponential(value, 2)]);
  }
  return marks;
}
function path(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${px(x)} ${px(y)}`).join("");
}
// Of all points in a column of pixels the first, the lowest, the highest and the last.
function thin(dots) {
  const kept = [];
  for (let begin = 0; begin < dots.length;) {
    const column = Math.floor(x(place(dots[begin])));
    let end = begin + 1, low = begin, high = begin;
    for (; end < dots.length && Math.floor(x(place(dots[end]))) === column; end++) {
      if (dots[end][VALUE] < dots[low][VALUE]) low = end;
      if (dots[end][VALUE] > dots[high][VALUE]) high = end;
    }
    const chosen = [begin, low, high, end - 1].sort((a, b) => a - b);
    chosen.forEach((index, at) => { if (!at || chosen[at - 1] !== index) kept.push(dots[index]); });
    begin = end;
  }
  return kept;
}
function runs(dots, has) {
  const found = [[]];
  for (const dot of dots) has(dot) ? found.at(-1).push(dot) : found.at(-1).length && found.push([]);
  return found.filter((run) => run.length);
}
function drawLine(line, y) {
  const [from, to] = visible(line);
  const near = line.dots.slice(from, to), dots = thin(near), at = (dot) => x(place(dot));
  let out = "";
  for (const run of runs(dots, (dot) => dot[LOWER] != null && dot[UPPER] != null)) {
    const half = run.length > 1 ? 0 : 3;
    const upper = run.flatMap((dot) => half ? [[at(dot) - half, y(dot[UPPER])], [at(dot) + half, y(dot[UPPER])]] : [[at(dot), y(dot[UPPER])]]);
    const lower = run.flatMap((dot) => half ? [[at(dot) - half, y(dot[LOWER])], [at(dot) + half, y(dot[LOWER])]] : [[at(dot), y(dot[LOWER])]]);
    out += `<path class="band" d="${path(upper.concat(lower.reverse()))}Z"/>`;
  }
  for (const limit of [LOWER_LIMIT, UPPER_LIMIT]) {
    const parts = runs(dots, (dot) => dot[limit] != null).map((run) => path(run.length > 1
      ? run.map((dot) => [at(dot), y(dot[limit])])
      : [[at(run[0]) - 5, y(run[0][limit])], [at(run[0]) + 5, y(run[0][limit])]]));
    if (parts.length) out += `<path class="limit" d="${parts.join("")}"/>`;
  }
  const borders = line.steps.map(([dot]) => x((place(line.dots[Math.max(dot - 1, 0)]) + place(line.dots[dot])) / 2));
  line.steps.forEach(([, before, after], index) => {
    const begin = index ? borders[index - 1] : x(place(line.dots[0]));
    const end = index + 1 < borders.length ? borders[index + 1] : x(place(line.dots.at(-1)));
    out += index ? "" : `<path class="level" d="M${px(begin)} ${px(y(before))}H${px(borders[0])}"/>`;
    out += `<path class="level" d="M${px(borders[index])} ${px(y(after))}H${px(end)}"/>`;
    out += `<path class="step" d="M${px(borders[index])} ${px(y(before))}V${px(y(after))}"/>`;
  });
  if (dots.length > 1) out += `<path class="line" d="${path(dots.map((dot) => [at(dot), y(dot[VALUE])]))}"/>`;
  const isSparse = near.length < 2 || (at(near.at(-1)) - at(near[0])) / (near.length - 1) >= 6;
  if (isSparse) for (const dot of dots) out += `<circle class="dot" cx="${px(at(dot))}" cy="${px(y(dot[VALUE]))}" r="2.2"/>`;
  for (const dot of near) if (dot[ALERT]) {
    const name = dot[ALERT].startsWith("alert:") ? "alert" : "settled";
    out += `<circle class="${name}" cx="${px(at(dot))}" cy="${px(y(dot[VALUE]))}" r="5"/>`;
  }
  return out;
}
function timeText(seconds, span) {
  const iso = new Date(seconds * 1000).toISOString();
  return span < 1800 ? iso.slice(11, 19) : span < 36 * 3600 ? iso.slice(5, 16).replace("T", " ") : iso.slice(0, 10);
}
function drawStamps(panel) {
  const bottom = panel.top + data.height;
  const first = Math.max(Math.ceil(range[0]), 0), last = Math.min(Math.floor(range[1]), data.stamps.length - 1);
  const span = last >= first ? data.stamps[last][0] - data.stamps[first][0] : 0;
  const most = Math.max(Math.floor(data.width / 92), 1), step = Math.max(Math.ceil((last - first + 1) / most), 1);
  let out = `<path class="axis" d="M${px(data.left)} ${px(bottom)}H${px(right)}"/>`;
  for (let at = first; at <= last; at += step) {
    const [seconds, hash] = data.stamps[at], left = px(x(at));
    out += `<path class="axis" d="M${left} ${px(bottom)}V${px(bottom + 4)}"/><text x="${left}" y="${px(bottom + 17)}">${timeText(seconds, span)}</text>`;
    if (hash) out += `<text class="hash" x="${left}" y="${px(bottom + 31)}">${escape(hash.slice(0, 8))}</text>`;
  }
  return out;
}
const originals = data.panels.map((_, index) => document.getElementById(`panel-${index}`).innerHTML);
function draw() {
  const isAll = range === all;
  reset.disabled = isAll;
  data.panels.forEach((panel, index) => {
    const group = document.getElementById(`panel-${index}`);
    group.innerHTML = originals[index];
    panel.y = null;
    if (isAll) return;
    const axis = axisOf(panel), part = (name) => group.querySelector(`:scope > .${name}`);
    for (const lead of group.querySelectorAll(".lead")) lead.remove();
    part("signs").innerHTML = "";
    part("x").innerHTML = drawStamps(panel);
    part("environment").innerHTML = data.stamps.map(({ 5: news }, at) => {
      const left = x(at - 0.5);
      return news && left >= data.left && left <= right ? `<path class="news" d="M${px(left)} ${px(panel.top)}V${px(panel.top + data.height)}"/>` : "";
    }).join("");
    if (!axis) {
      part("data").innerHTML = part("y").innerHTML = "";
      return;
    }
    const y = panel.y = yOf(panel, axis);
    const size = Math.min(Math.max(Math.abs(axis.low), Math.abs(axis.high)), 1) * axis.scale;
    const [unit, symbol] = rung(panel.units, size);
    part("y").innerHTML = ticks(axis, unit).map(([value, label], at) => `<path class="grid" d="M${px(data.left)} ${px(y(value))}H${px(right)}"/>
      <text x="${px(data.left - 8)}" y="${px(y(value) + 4)}">${label}</text>`).join("");
    const title = part("title").firstChild;
    title.textContent = title.textContent.replace(/, [^,]*$/, symbol ? `, ${symbol}` : "");
    part("data").innerHTML = panel.lines.map((line) => `<g class="c${line.colour}">${drawLine(line, y)}</g>`).join("");
  });
}
function show(next) {
  let [low, high] = next;
  // A place and its neighbours are the closest look.
  if (high - low < 2) [low, high] = [(low + high) / 2 - 1, (low + high) / 2 + 1];
  if (high - low >= all[1] - all[0]) range = all;
  else {
    const shift = Math.max(all[0] - low, 0) - Math.max(high - all[1], 0);
    range = [low + shift, high + shift];
  }
  hide();
  draw();
}

function point(event) {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const index = data.panels.findIndex((panel) => at.y >= panel.top && at.y <= panel.top + data.height);
  return { x: at.x, y: at.y, index, isInside: index >= 0 && at.x >= data.left && at.x <= right };
}
const layer = document.createElementNS("http://www.w3.org/2000/svg", "g");
layer.setAttribute("pointer-events", "none");
svg.append(layer);
function hide() {
  tip.hidden = true;
  layer.innerHTML = "";
}
function nearest(panel, at) {
  const y = panel.y || yOf(panel, panel.axis ||= (() => { const kept = range; range = all; const axis = axisOf(panel); range = kept; return axis; })());
  let best = null;
  panel.lines.forEach((line) => {
    // By halves: the places rise.
    const target = reportsAt(at.x);
    let low = 0, high = line.dots.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      place(line.dots[middle]) < target ? low = middle + 1 : high = middle;
    }
    for (let index = Math.max(low - 4, 0); index < Math.min(low + 4, line.dots.length); index++) {
      const dot = line.dots[index], left = x(place(dot)), top = y(dot[VALUE]);
      if (left < data.left || left > right) continue;
      // A column is easier to hit than a height.
      const distance = Math.hypot((left - at.x) * 3, top - at.y);
      if (!best || distance < best.distance) best = { distance, line, dot, left, top };
    }
  });
  return best;
}
function tell(panel, { line, dot }) {
  const [seconds, hash, branch, testbed, iterations, news] = data.stamps[dot[STAMP]];
  const rows = [`<b>${escape(line.name)}</b><span class="value">${escape(text(panel, dot[VALUE]))}</span>`];
  const quiet = (row) => rows.push(`<span class="quiet">${escape(row)}</span>`);
  const between = (low, high) => [low, high].map((end) => end == null ? "–" : text(panel, end)).join(" … ");
  if (dot[LOWER] != null || dot[UPPER] != null) quiet(`spread ${between(dot[LOWER], dot[UPPER])}`);
  if (dot[LOWER_LIMIT] != null || dot[UPPER_LIMIT] != null) quiet(`limits ${between(dot[LOWER_LIMIT], dot[UPPER_LIMIT])}`);
  const verdict = [dot[OUTCOME], dot[ALERT]].filter(Boolean).join(", ");
  if (verdict) rows.push(`<span class="${dot[ALERT]?.startsWith("alert:") ? "bad" : ""}">${escape(verdict)}</span>`);
  quiet(`${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`);
  quiet(`${data.texts[branch]}${hash ? ` at ${hash}` : ""}, ${data.texts[testbed]}`);
  if (iterations > 1) quiet(`iteration ${dot[ITERATION] + 1} of ${iterations}`);
  if (news) quiet(`environment: ${news}`);
  return rows.join("<br>");
}
function hover(event, at) {
  const panel = data.panels[at.index], best = panel && at.isInside && nearest(panel, at);
  if (!best) return hide();
  layer.innerHTML = `<path class="cross" d="M${px(best.left)} ${px(panel.top)}V${px(panel.top + data.height)}"/>
    <g class="c${best.line.colour}"><circle class="focus" cx="${px(best.left)}" cy="${px(clamp(best.top, panel.top, panel.top + data.height))}" r="6.5"/></g>`;
  tip.innerHTML = tell(panel, best);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 18 + box.width > innerWidth ? event.clientX - 18 - box.width : event.clientX + 18;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${clamp(event.clientY - box.height / 2, 4, Math.max(innerHeight - box.height - 4, 4))}px`;
}
let drag = null;
svg.addEventListener("pointerdown", (event) => {
  const at = point(event);
  if (event.button || !at.isInside || event.pointerType === "touch") return;
  drag = at;
  svg.setPointerCapture(event.pointerId);
  event.preventDefault();
});
svg.addEventListener("pointermove", (event) => {
  const at = point(event);
  if (!drag) return hover(event, at);
  const panel = data.panels[drag.index], [low, high] = [drag.x, clamp(at.x, data.left, right)].sort((a, b) => a - b);
  tip.hidden = true;
  layer.innerHTML = `<rect class="choice" x="${px(low)}" y="${px(panel.top)}" width="${px(high - low)}" height="${data.height}"/>`;
});
svg.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const [low, high] = [drag.x, clamp(point(event).x, data.left, right)].sort((a, b) => a - b);
  drag = null;
  if (high - low >= 5) show([reportsAt(low), reportsAt(high)]);
});
svg.addEventListener("pointercancel", () => { drag = null; hide(); });
svg.addEventListener("pointerleave", () => { if (!drag) hide(); });
svg.addEventListener("dblclick", () => show(all));
svg.addEventListener("wheel", (event) => {
  const at = point(event);
  if (!at.isInside || !(event.ctrlKey || event.shiftKey)) return;
  event.preventDefault();
  const factor = Math.exp(clamp(event.deltaY || event.deltaX, -100, 100) / 300), centre = reportsAt(at.x);
  show([centre - (centre - range[0]) * factor, centre + (range[1] - centre) * factor]);
}, { passive: false });
reset.addEventListener("click", () => show(all));
addEventListener("keydown", (event) => { if (event.key === "Escape") { drag = null; show(all); } });
})();
