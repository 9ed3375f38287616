// Draws a panel from the page's data, by the rules of `layout`, `axis` and `svg`, with the same result as the static
// image. Independent of the page; crates/track/tests/all/plot/script.rs compares its output with the image.
const COLOURS = 6, LINES_MAX = 12, TOP = 34, LABEL_HEIGHT = 31, WIDTH = 1120, NARROW_WIDTH = 780, FAR_LIMITS_MAX = 4;
const px = (value) => String(Math.round(value * 10) / 10);
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text) => String(text).replace(/[&<>"']/g, (c) => escapes[c])
  .replace(/[\t\n\r]/g, " ").replace(/[\0-\x1f\ufffe\uffff]/g, "\ufffd");
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// Number formats are those of the rest of wingbeat: crates/text/src/numbers.rs.
const minus = (text) => text.replace(/-/g, "−");
const exponential = (value, digits) => minus(value.toExponential(digits).replace("+", ""));
function fixed(value, decimals) {
  const [whole, rest] = Math.abs(value).toFixed(decimals).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
  return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}
function rung(units, value) {
  const size = Math.abs(value), own = units.rungs.find((one) => one[0] === 1) || [1, ""];
  if (!(size > 0) || (units.whole && size < 1e7) || size > units.rungs.at(-1)[0] * 1e6) return own;
  return units.rungs.findLast((one) => size >= one[0] * 0.99995) || units.rungs[0];
}

// Decodes base64 of floats. The first character is their width. NaN means no number.
function floats(text) {
  if (!text) return null;
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", width = text[0] === "d" ? 8 : 4;
  const bytes = new Uint8Array(Math.floor((text.length - 1) * 3 / 4));
  let bits = 0, held = 0, at = 0;
  for (let index = 1; index < text.length; index++) {
    bits = (bits << 6 | digits.indexOf(text[index])) & 0xffff;
    held += 6;
    if (held >= 8) bytes[at++] = bits >> (held -= 8);
  }
  const view = new DataView(bytes.buffer), count = Math.floor(bytes.length / width);
  return Array.from({ length: count }, (_, index) => width === 8 ? view.getFloat64(index * 8, true) : view.getFloat32(index * 4, true));
}
// The column of each report on the axis, the iterations before it in the column, and those of the whole column.
function columnsOf(data) {
  if (data.own) return data.own;
  const starts = data.columns || data.stamps.map((_, stamp) => stamp), count = (stamp) => Math.max(data.stamps[stamp][4], 1);
  return data.own = starts.flatMap((start, number) => {
    const end = number + 1 < starts.length ? starts[number + 1] : data.stamps.length, own = [];
    let total = 0;
    for (let stamp = start; stamp < end; total += count(stamp), stamp++) own.push({ number, before: total });
    return own.map((one) => ({ ...one, total }));
  });
}
const widthOf = (data) => columnsOf(data).length ? columnsOf(data).at(-1).number + 1 : 0;
const startOf = (data, column) => data.columns ? data.columns[column] : column;
// The dots of a line, unpacked on first use.
function dotsOf(data, line) {
  if (line.dots) return line.dots;
  const [value, lower, upper, lowerLimit, upperLimit] = line.columns.map(floats);
  const { runs, iterations } = data.places[line.places], dots = [];
  const end = (column, index) => column && column[index] === column[index] ? column[index] : null;
  for (let run = 0; run < runs.length; run += 2) for (let step = 0; step < runs[run + 1]; step++) {
    const index = dots.length, stamp = runs[run] + step, iteration = iterations ? iterations[index] : 0;
    const { number, before, total } = columnsOf(data)[stamp];
    const place = number + 0.8 * ((before + iteration + 0.5) / total - 0.5);
    dots.push({ stamp, iteration, place, value: value[index], outcome: null, alert: null,
      lower: end(lower, index), upper: end(upper, index), lowerLimit: end(lowerLimit, index), upperLimit: end(upperLimit, index) });
  }
  for (const [index, outcome, alert] of line.marks) [dots[index].outcome, dots[index].alert] = [outcome, alert];
  return line.dots = dots;
}

// The axis of the dots in a range: linear or logarithmic.
function axisOf(data, panel, range) {
  let low = Infinity, high = -Infinity;
  const spread = [], limits = [];
  for (const line of panel.lines) for (const dot of dotsOf(data, line)) {
    if (dot.place < range[0] || dot.place > range[1]) continue;
    [low, high] = [Math.min(low, dot.value), Math.max(high, dot.value)];
    for (const end of [dot.lower, dot.upper]) if (end != null) spread.push(end);
    for (const end of [dot.lowerLimit, dot.upperLimit]) if (end != null) limits.push(end);
  }
  if (low > high) return null;
  const log = low > 0 && (data.scale === "log" || data.scale === "" && high / low >= 10);
  const floor = !log && low >= 0 ? 0 : -Infinity, scale = log ? 1 : Math.max(Math.abs(low), Math.abs(high)) || 1;
  const isOn = (value) => !log || value > 0, number = (value) => log ? Math.log(value) : value / scale;
  [low, high] = [number(low), number(high)];
  const missing = Math.max(panel.span - (high - low), 0);
  [low, high] = [low - missing / 2, high + missing / 2];
  if (!(high > low)) [low, high] = [low - 0.05, high + 0.05];
  const extra = (high - low) * (log ? 0.25 : 0.75), near = (high - low) * 0.25;
  const reached = [low, high];
  for (const end of spread.filter(isOn).map(number)) reached.push(clamp(end, low - extra, high + extra));
  for (const end of limits.filter(isOn).map(number)) if (end >= low - near && end <= high + near) reached.push(end);
  [low, high] = [reached.reduce((a, b) => Math.min(a, b)), reached.reduce((a, b) => Math.max(a, b))];
  const margin = 0.06 * (high - low);
  return { low: Math.max(low - margin, floor), high: high + margin, scale, log };
}
// The relative position of a value: 0 at the bottom, 1 at the top.
function shareOf(axis, value) {
  const number = axis.log ? (value > 0 ? Math.log(value) : -Infinity) : value / axis.scale;
  return (number - axis.low) / (axis.high - axis.low);
}
const yOf = (panel, axis) => (value) => TOP + panel.height * (1 - clamp(shareOf(axis, value), -2, 3));
function logMarks(axis, units) {
  const isBinary = units.rungs.some((one) => one[0] === 1024), base = isBinary ? 2 : 10;
  const first = Math.floor(axis.low / Math.log(base)), last = Math.ceil(axis.high / Math.log(base));
  const every = (step, digits) => {
    const marks = [];
    for (let power = Math.floor(first / step) * step; power <= last; power += step) {
      for (const digit of digits) {
        // Negative powers are inexact, quotients are not.
        const value = power < 0 ? digit / base ** -power : digit * base ** power;
        if (value >= 2.3e-308 && value < Infinity && Math.log(value) >= axis.low && Math.log(value) <= axis.high) marks.push(value);
      }
    }
    return marks;
  };
  let marks = every(1, isBinary ? [1] : [1, 2, 5]);
  for (let step = 1; marks.length > 6; step++) marks = every(step, [1]);
  return marks;
}
function logText(value, units) {
  const [size, symbol] = rung(units, value), scaled = value / size;
  const text = scaled >= 0.999 && scaled < 1e12 ? fixed(scaled, 0)
    : scaled >= 0.001 && scaled < 1 ? fixed(scaled, Math.ceil(-Math.log10(scaled) - 1e-9)) : exponential(scaled, 0);
  return `${text} ${symbol}`.trim();
}
function ticks(axis, units) {
  if (axis.log && axis.high - axis.low < Math.log(10)) {
    // Powers of ten are too far apart.
    return ticks({ low: Math.exp(axis.low - axis.high), high: 1, scale: Math.exp(axis.high) }, units);
  }
  if (axis.log) return { symbol: "", marks: logMarks(axis, units).map((value) => [value, logText(value, units)]) };
  const own = units.rungs.find((one) => one[0] === 1) || [1, ""];
  const stepOf = (unit) => {
    const raw = (axis.high - axis.low) * (axis.scale / unit) / 6, power = 10 ** Math.floor(Math.log10(raw));
    return power * ([1, 2, 5].find((round) => raw / power <= round * 1.000001) || 10);
  };
  const decimalsOf = (unit) => Math.max(-Math.floor(Math.log10(stepOf(unit))), 0);
  let [unit, symbol] = rung(units, Math.min(Math.max(Math.abs(axis.low), Math.abs(axis.high)), 1) * axis.scale);
  // 18,204,123,457 rather than 18.204123457 G.
  if (decimalsOf(unit) > 3) [unit, symbol] = own;
  const low = axis.low * (axis.scale / unit), high = axis.high * (axis.scale / unit);
  const step = stepOf(unit), decimals = decimalsOf(unit);
  const isPlain = decimals <= 9 && Math.max(Math.abs(low), Math.abs(high)) < 1e12;
  const marks = [];
  for (let index = 0, first = Math.ceil(low / step); index <= 12; index++) {
    const value = (first + index) * step;
    if (!(value <= high)) break;
    marks.push([value * unit, value === 0 ? "0" : isPlain ? fixed(value, decimals) : exponential(value, 2)]);
  }
  return { symbol, marks };
}

const path = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${px(x)} ${px(y)}`).join("");
// The dots in a range, and their neighbours on both sides.
function visible(dots, range) {
  let from = dots.findIndex((dot) => dot.place >= range[0]), to = dots.findLastIndex((dot) => dot.place <= range[1]) + 1;
  if (from < 0) from = dots.length;
  return dots.slice(Math.max(Math.min(from, to) - 1, 0), Math.max(from, to) + 1);
}
// The first, lowest, highest and last of all dots in a pixel column.
function thin(dots, column) {
  const kept = [];
  for (let begin = 0; begin < dots.length;) {
    let end = begin + 1, low = begin, high = begin;
    for (; end < dots.length && column(dots[end]) === column(dots[begin]); end++) {
      if (dots[end].value < dots[low].value) low = end;
      if (dots[end].value > dots[high].value) high = end;
    }
    const chosen = [begin, low, high, end - 1].sort((a, b) => a - b);
    chosen.forEach((index, at) => { if (!at || chosen[at - 1] !== index) kept.push(dots[index]); });
    begin = end;
  }
  return kept;
}
function band(dots, x, y, column) {
  let out = "", run = [];
  const flush = () => {
    if (run.length === 1) run = [{ ...run[0], x: run[0].x - 3 }, { ...run[0], x: run[0].x + 3 }];
    const upper = run.map((one) => [one.x, y(one.upper)]), lower = run.map((one) => [one.x, y(one.lower)]).reverse();
    if (run.length) out += `${path(upper.concat(lower))}Z`;
    run = [];
  };
  for (const dot of dots) {
    const own = column(dot), last = run.at(-1);
    if (dot.lower == null || dot.upper == null) {
      if (last && last.column !== own) flush();
    } else if (last && last.column === own) {
      [last.lower, last.upper] = [Math.min(last.lower, dot.lower), Math.max(last.upper, dot.upper)];
    } else run.push({ column: own, x: x(dot.place), lower: dot.lower, upper: dot.upper });
  }
  flush();
  return out;
}
function limitPath(dots, x, y, limit) {
  let out = "", run = [];
  const flush = () => {
    if (run.length === 1) run = [[run[0][0] - 5, run[0][1]], [run[0][0] + 5, run[0][1]]];
    out += path(run);
    run = [];
  };
  for (const dot of dots) dot[limit] == null ? flush() : run.push([x(dot.place), y(dot[limit])]);
  flush();
  return out;
}
const border = (dots, [dot], x) => (x(dots[Math.max(dot - 1, 0)].place) + x(dots[dot].place)) / 2;
function drawLine(all, line, range, x, y, column) {
  const near = visible(all, range), dots = thin(near, column);
  const points = dots.map((dot) => [x(dot.place), y(dot.value)]);
  let out = "";
  const add = (name, d) => { if (d) out += `<path class="${name}" d="${d}"/>\n`; };
  add("band", band(near, x, y, column));
  add("limit", limitPath(dots, x, y, "lowerLimit"));
  add("limit", limitPath(dots, x, y, "upperLimit"));
  let levels = "", from = x(all[0].place);
  line.steps.forEach((step) => {
    const to = border(all, step, x);
    levels += `M${px(from)} ${px(y(step[1]))}H${px(to)}`;
    from = to;
  });
  if (levels) levels += `M${px(from)} ${px(y(line.steps.at(-1)[2]))}H${px(x(all.at(-1).place))}`;
  add("level", levels);
  if (points.length > 1) add("line", path(points));
  const isSparse = near.length === 1 || near.length && (x(near.at(-1).place) - x(near[0].place)) / (near.length - 1) >= 6;
  if (isSparse) for (const [left, top] of points) out += `<circle class="dot" cx="${px(left)}" cy="${px(top)}" r="2.2"/>\n`;
  return [out, points];
}

// Segments of a curve within a rectangle.
function crossings([left, top, right, bottom], curve) {
  let count = 0;
  for (let index = 1; index < curve.length; index++) {
    const [[x, y], [nextX, nextY]] = [curve[index - 1], curve[index]];
    if (nextX < left || x > right) continue;
    const at = (place) => nextX > x ? y + (nextY - y) * clamp((place - x) / (nextX - x), 0, 1) : nextY;
    if (Math.min(at(left), at(right)) < bottom && Math.max(at(left), at(right)) > top) count++;
  }
  return count;
}
// The best position for a text next to a step: without overlaps, and over as few lines as possible.
function textPlace(data, panel, curves, taken, x, y, width) {
  const right = Math.max(data.left + data.width, data.left + width), top = TOP + 16, bottom = TOP + panel.height - 5;
  let best = null;
  for (let row = 0; row <= Math.floor((bottom - top) / 11); row++) for (const shift of row ? [-row, row] : [0]) {
    for (const wanted of [x - 5, x + 5 + width]) {
      const end = clamp(wanted, data.left + width, right), base = clamp(y + 11 * shift, top, Math.max(bottom, top));
      const area = [end - width, base - 11, end, base + 3];
      if (taken.some((other) => other[0] < area[2] && area[0] < other[2] && other[1] < area[3] && area[1] < other[3])) continue;
      const cost = curves.reduce((sum, curve) => sum + crossings(area, curve), 0) + 0.5 * row;
      if (!best || cost < best.cost) best = { cost, area };
    }
  }
  if (best) taken.push(best.area);
  return best && [best.area[2], best.area[3] - 3];
}
function drawSteps(data, panel, all, line, x, y, curves, taken) {
  let out = "";
  for (const step of line.steps) {
    const [, before, after, text, width] = step, left = border(all, step, x), [from, to] = [y(before), y(after)];
    if (left < data.left || left > data.left + data.width) continue;
    out += `<path class="step" d="M${px(left)} ${px(from)}V${px(to)}"/>\n`;
    const place = text && textPlace(data, panel, curves, taken, left, to < from ? to + 11 : to, width);
    if (place) out += `<text class="change" x="${px(place[0])}" y="${px(place[1])}">${text}</text>\n`;
  }
  return out;
}
function drawAlerts(all, range, x, y) {
  let out = "";
  const drawn = new Set();
  for (const dot of all) {
    if (!dot.alert || dot.place < range[0] || dot.place > range[1]) continue;
    const [limit, status] = dot.alert.split(" "), left = x(dot.place), top = y(dot.value);
    const key = `${Math.floor(left)} ${Math.floor(top / 2)} ${status}`;
    if (drawn.has(key)) continue;
    drawn.add(key);
    const side = limit === "upper" ? "above the upper limit" : "below the lower limit";
    out += `<circle class="${status === "active" ? "alert" : "settled"}" cx="${px(left)}" cy="${px(top)}" r="5"><title>${status} alert: ${side}</title></circle>\n`;
  }
  return out;
}
// The newest limits of a line in sight as figures at the edges, if they are beyond the axis.
function drawFarLimits(data, panel, all, range, axis, curves, taken) {
  let out = "";
  const seen = all.filter((dot) => dot.place >= range[0] && dot.place <= range[1]);
  for (const name of ["upperLimit", "lowerLimit"]) {
    const limit = seen.findLast((dot) => dot[name] != null)?.[name], share = limit == null ? 0.5 : shareOf(axis, limit);
    if (share >= 0 && share < 1) continue;
    const text = `${share < 0 ? "↓" : "↑"} limit ${valueText(panel, limit)}`, y = share < 0 ? TOP + panel.height : TOP;
    const place = textPlace(data, panel, curves, taken, data.left + data.width + 5, y, 6.6 * [...text].length + 8);
    if (place) out += `<text class="change" x="${px(place[0])}" y="${px(place[1])}">${escape(text)}</text>\n`;
  }
  return out;
}
function timeText(seconds, span) {
  const iso = new Date(seconds * 1000).toISOString();
  return span < 1800 ? iso.slice(11, 19) : span < 36 * 3600 ? iso.slice(5, 16).replace("T", " ") : iso.slice(0, 10);
}
function drawStamps(data, panel, range, x) {
  const bottom = TOP + panel.height;
  const first = Math.max(Math.ceil(range[0]), 0), last = Math.min(Math.floor(range[1]), widthOf(data) - 1);
  const stamp = (column) => data.stamps[startOf(data, column)], span = last >= first ? stamp(last)[0] - stamp(first)[0] : 0;
  const most = Math.max(Math.floor(data.width / 92), 1), step = Math.max(Math.ceil((last - first + 1) / most), 1);
  let out = `<path class="axis" d="M${px(data.left)} ${px(bottom)}H${px(data.left + data.width)}"/>\n`;
  for (let at = first; at <= last; at += step) {
    const [seconds, hash] = stamp(at), left = px(x(at));
    out += `<path class="axis" d="M${left} ${px(bottom)}V${px(bottom + 4)}"/><text x="${left}" y="${px(bottom + 17)}">${timeText(seconds, span)}</text>`;
    if (hash) out += `<text class="hash" x="${left}" y="${px(bottom + 31)}">${escape(hash.slice(0, 8))}</text>`;
    out += "\n";
  }
  return out;
}
function drawNews(data, panel, x) {
  const isInside = (left) => left >= data.left && left <= data.left + data.width;
  const before = (stamp) => {
    const { number, before, total } = columnsOf(data)[stamp];
    return x(before ? number + 0.8 * (before / total - 0.5) : number - 0.5);
  };
  let out = "", last = null;
  data.stamps.forEach(({ 5: news }, at) => {
    const left = before(at), own = Math.floor(Math.max(left - data.left, 0));
    if (!news || !isInside(left) || last === own) return;
    last = own;
    out += `<path class="news" d="M${px(left)} ${TOP}V${px(TOP + panel.height)}"/>\n`;
  });
  // Merges numbers that would overlap: 2–4.
  const badges = [];
  data.notes.forEach(([stamp, number]) => {
    const left = before(stamp), last = badges.at(-1);
    if (!isInside(left)) return;
    if (last && left - last.left < 26) last.last = number;
    else badges.push({ left, first: number, last: number });
  });
  for (const { left, first, last } of badges) {
    const text = first === last ? `${first}` : `${first}–${last}`, room = 6.6 * text.length + 8;
    out += `<rect class="badge" x="${px(left - room / 2)}" y="${TOP - 7}" width="${px(room)}" height="14" rx="7"/><text x="${px(left)}" y="${TOP + 4}">${text}</text>\n`;
  }
  return out;
}
// Spreads positions so that neighbours are at least a label's height apart, and keeps them between the ends.
function spread(wanted, low, high) {
  const places = [];
  for (const want of wanted) places.push(Math.max(want, places.length ? places.at(-1) + LABEL_HEIGHT : low));
  for (let index = places.length - 1, most = high; index >= 0; index--) {
    places[index] = Math.min(places[index], most);
    most = places[index] - LABEL_HEIGHT;
  }
  return places;
}
const classOf = (colour) => colour >= LINES_MAX ? "rest" : colour >= COLOURS ? `c${colour - COLOURS} second` : `c${colour}`;
function drawLabels(data, panel, range, x, y) {
  const right = data.left + data.width;
  const ends = panel.lines.slice(0, LINES_MAX).map((line) => ({ line, last: dotsOf(data, line).at(-1) }))
    .map((end) => ({ ...end, y: y(end.last.value) })).sort((a, b) => a.y - b.y);
  const places = spread(ends.map((end) => end.y), TOP + 4, TOP + panel.height - 10);
  return ends.map(({ line, last, y: top }, index) => {
    const [name, value, change] = line.label, place = places[index], left = x(last.place), tx = px(right + 18);
    const lead = last.place > range[1] ? "" : `<path class="lead" d="M${px(left + 3)} ${px(top)}L${px(Math.max(right, left + 3))} ${px(top)}L${px(right + 14)} ${px(place)}"/>`;
    const told = change ? `<tspan class="quiet" dx="8">${change}</tspan>` : "";
    return `<g class="label ${classOf(line.colour)}"><title>${escape(line.name)}</title>${lead}<text x="${tx}" y="${px(place)}">${escape(name)}</text><text class="value" x="${tx}" y="${px(place + 14)}">${escape(value)}${told}</text></g>\n`;
  }).join("");
}
// Draws a panel as SVG for a range of reports.
function drawPanel(data, index, range) {
  const panel = data.panels[index], axis = axisOf(data, panel, range) || { low: 0, high: 1, scale: 1, isEmpty: true };
  const x = (reports) => data.left + data.width * (reports - range[0]) / (range[1] - range[0]);
  const column = (dot) => Math.floor(Math.max(x(dot.place) - data.left, 0)), y = yOf(panel, axis);
  const { symbol, marks } = axis.isEmpty ? { symbol: "", marks: [] } : ticks(axis, panel.units);
  const right = px(data.left + data.width), left = px(data.left), grey = panel.lines.length - LINES_MAX;
  const about = [panel.direction, axis.log ? "logarithmic" : data.scale === "log" && !axis.isEmpty ? "linear, as not all values are positive" : "", grey > 0 ? `${fixed(grey, 0)} more in grey` : ""].filter(Boolean);
  let out = `<svg class="wingbeat" viewBox="0 0 ${WIDTH} ${px(TOP + panel.height + 44)}" role="img" aria-label="${escape(panel.name)}">\n`;
  out += `<clipPath id="clip-${index}"><rect x="${left}" y="${TOP}" width="${px(data.width)}" height="${px(panel.height)}"/></clipPath>\n`;
  out += `<text class="title" x="${left}" y="${TOP - 12}">${escape(panel.title + (symbol ? `, ${symbol}` : ""))}<tspan class="quiet" dx="10">${about.join(" · ")}</tspan></text>\n<g class="y">\n`;
  for (const [value, text] of marks) {
    out += `<path class="grid" d="M${left} ${px(y(value))}H${right}"/><text x="${px(data.left - 8)}" y="${px(y(value) + 4)}">${escape(text)}</text>\n`;
  }
  out += `</g>\n<g class="x">\n${drawStamps(data, panel, range, x)}</g>\n<g class="environment">\n${drawNews(data, panel, x)}</g>\n<g clip-path="url(#clip-${index})">\n`;
  const curves = [], lines = panel.lines.map((line) => ({ line, dots: dotsOf(data, line), name: classOf(line.colour) }));
  for (const { line, dots, name } of [...lines].reverse()) {
    const [drawn, points] = drawLine(dots, line, range, x, y, column);
    out += `<g class="${name}">\n${drawn}</g>\n`;
    curves.push(points);
  }
  out += "</g>\n";
  const taken = [];
  for (const { line, dots, name } of lines) {
    out += `<g class="${name}">\n${drawSteps(data, panel, dots, line, x, y, curves, taken)}${drawAlerts(dots, range, x, y)}</g>\n`;
  }
  if (!axis.isEmpty) for (const { dots, name } of lines.slice(0, FAR_LIMITS_MAX)) {
    const far = drawFarLimits(data, panel, dots, range, axis, curves, taken);
    if (far) out += `<g class="${name}">\n${far}</g>\n`;
  }
  const height = TOP + panel.height + 44, small = (length) => px(length * NARROW_WIDTH / WIDTH);
  // The axis once more, with its unit, to stay in sight beside a panel that scrolls.
  const texts = [...marks.map(([value, text]) => [y(value) + 4, text]), [TOP - 12, symbol]]
    .map(([top, text]) => `<text x="${px(data.left - 8)}" y="${px(top)}">${escape(text)}</text>`).join("");
  const ruler = `<svg class="ruler" viewBox="0 0 ${left} ${px(height)}" width="${small(data.left)}" height="${small(height)}" aria-hidden="true"><g class="wingbeat"><rect class="back" width="${left}" height="${px(height)}"/><g class="y">${texts}</g></g></svg>`;
  return `${out}${drawLabels(data, panel, range, x, y)}</svg>${ruler}`;
}
