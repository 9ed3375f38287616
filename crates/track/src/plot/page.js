// The page: search, zoom, and tooltips under the pointer or the cursor. Without this script the first charts are static
// images and the others only listed by name. With it each chart is drawn when it scrolls into view.
const data = JSON.parse(document.getElementById("data").textContent);
const figures = [...document.querySelectorAll("figure")];
const [tools, search, found, reset, tip] = ["tools", "search", "found", "reset", "tip"].map((id) => document.getElementById(id));
const all = [-0.5, widthOf(data) - 0.5], right = data.left + data.width;
let range = all, cursor = null, drag = null;
// Called with the visible range when the reader changes it, or with null if it covers everything. `isSteady` is true for
// one of many small changes.
let told = () => {};
// The range that each chart is drawn for. The static images show all reports.
const drawn = new Map(figures.map((_, index) => [index, all]).slice(0, data.pictures));
const near = new Set();

function draw(index) {
  if (drawn.get(index) === range) return;
  figures[index].innerHTML = drawPanel(data, index, range);
  drawn.set(index, range);
}
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const index = figures.indexOf(target);
    if (isIntersecting) near.add(index), draw(index);
    else near.delete(index);
  }
}, { rootMargin: "800px" });
figures.forEach((figure, index) => {
  // Reserves the space before a chart is drawn.
  figure.style.aspectRatio = `${WIDTH} / ${TOP + data.panels[index].height + 44}`;
  observer.observe(figure);
});

function filter() {
  const isShown = data.panels.map((panel) => isFound(panel, search.value.trim()));
  figures.forEach((figure, index) => { figure.hidden = !isShown[index]; });
  found.textContent = `${fixed(isShown.filter(Boolean).length, 0)} of ${fixed(figures.length, 0)} charts`;
  hide();
}
function show([low, high]) {
  // The maximum zoom shows a report and its neighbours.
  if (high - low < 2) [low, high] = [Math.round((low + high) / 2) - 1.5, Math.round((low + high) / 2) + 1.5];
  if (high - low >= all[1] - all[0]) range = all;
  else {
    const shift = Math.max(all[0] - low, 0) - Math.max(high - all[1], 0);
    range = [low + shift, high + shift];
  }
  reset.disabled = range === all;
  hide();
  for (const index of near) draw(index);
}
function choose(ends, isSteady = false) {
  show(ends);
  told(range === all ? null : range, isSteady);
}
function zoom(factor, centre, isSteady) {
  choose([centre - (centre - range[0]) * factor, centre + (range[1] - centre) * factor], isSteady);
}

const layer = document.createElementNS("http://www.w3.org/2000/svg", "g");
layer.setAttribute("pointer-events", "none");
function mark(index, markup) {
  layer.innerHTML = markup;
  figures[index].querySelector("svg").append(layer);
}
function hide() {
  tip.hidden = true;
  layer.remove();
}
// Highlights a dot and shows its description next to it or the pointer.
function tell(index, at, pointer) {
  draw(index);
  cursor = { index, at };
  const panel = data.panels[index], line = panel.lines[at[0]], dot = dotsOf(data, line)[at[1]];
  const axis = axisOf(data, panel, range), bottom = TOP + panel.height;
  const x = data.left + data.width * (dot.place - range[0]) / (range[1] - range[0]);
  const y = axis ? clamp(yOf(panel, axis)(dot.value), TOP, bottom) : bottom;
  mark(index, `<path class="cross" d="M${px(x)} ${TOP}V${px(bottom)}"/>
    <g class="${classOf(line.colour)}"><circle class="focus" cx="${px(x)}" cy="${px(y)}" r="6.5"/></g>`);
  tip.innerHTML = about(data, panel, at);
  tip.hidden = false;
  const svg = figures[index].querySelector("svg");
  const point = pointer || new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
  const box = tip.getBoundingClientRect();
  const left = point.x + 18 + box.width > innerWidth ? point.x - 18 - box.width : point.x + 18;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${clamp(point.y - box.height / 2, 4, Math.max(innerHeight - box.height - 4, 4))}px`;
}

// The chart under the pointer, and the position in it.
function place(event) {
  const figure = event.target.closest?.("figure"), svg = figure?.querySelector("svg");
  if (!svg) return null;
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const index = figures.indexOf(figure);
  const isInside = x >= data.left && x <= right && y >= TOP && y <= TOP + data.panels[index].height;
  return { index, x, y, isInside, reports: range[0] + (x - data.left) / data.width * (range[1] - range[0]) };
}
const main = document.querySelector("main");
main.addEventListener("pointerdown", (event) => {
  const at = place(event);
  if (event.button || !at?.isInside || event.pointerType === "touch") return;
  drag = at;
});
main.addEventListener("pointermove", (event) => {
  const at = place(event);
  if (drag) {
    if (at?.index !== drag.index) return;
    const [low, high] = [drag.x, clamp(at.x, data.left, right)].sort((a, b) => a - b);
    tip.hidden = true;
    return mark(drag.index, `<rect class="choice" x="${px(low)}" y="${TOP}" width="${px(high - low)}" height="${data.panels[drag.index].height}"/>`);
  }
  const dot = at?.isInside && nearest(data, data.panels[at.index], range, at);
  if (dot) tell(at.index, dot, { x: event.clientX, y: event.clientY });
  else hide();
});
addEventListener("pointerup", (event) => {
  const begin = drag, at = drag && place(event);
  drag = null;
  if (!begin) return;
  hide();
  if (at?.index !== begin.index || Math.abs(at.x - begin.x) < 5) return;
  const [low, high] = [begin.reports, clamp(at.reports, range[0], range[1])].sort((a, b) => a - b);
  // Whole reports, so that an address can name the range.
  choose([Math.ceil(low) - 0.5, Math.floor(high) + 0.5]);
});
main.addEventListener("pointerleave", () => { if (!drag) hide(); });
main.addEventListener("dblclick", () => choose(all));
main.addEventListener("wheel", (event) => {
  const at = place(event);
  if (!at?.isInside || !(event.ctrlKey || event.shiftKey)) return;
  event.preventDefault();
  zoom(Math.exp(clamp(event.deltaY || event.deltaX, -100, 100) / 300), at.reports, true);
}, { passive: false });
main.addEventListener("keydown", (event) => {
  const index = figures.indexOf(event.target.closest("figure"));
  if (index < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
  const panel = data.panels[index], place = ([line, dot]) => dotsOf(data, panel.lines[line])[dot].place;
  // The cursor starts at the newest value of the first line, on the first key press.
  const isHere = cursor?.index === index, from = isHere ? cursor.at : [0, dotsOf(data, panel.lines[0]).length - 1];
  const factor = { "+": 0.5, "-": 2 }[event.key], next = factor ? from : moved(data, panel, from, event.key);
  if (!next) return;
  event.preventDefault();
  const at = isHere ? next : from, half = (range[1] - range[0]) / 2;
  if (factor) zoom(factor, place(at), true);
  // Scrolls the dot into view.
  else if (place(at) < range[0] || place(at) > range[1]) choose([place(at) - half, place(at) + half], true);
  tell(index, at);
});
main.addEventListener("focusout", hide);
addEventListener("keydown", (event) => {
  const isTyping = event.target === search || event.target?.matches?.("input, select, textarea");
  if (event.key === "/" && !isTyping) event.preventDefault(), search.focus();
  if (event.key !== "Escape") return;
  drag = null;
  choose(all);
});
search.addEventListener("input", filter);
reset.addEventListener("click", () => choose(all));
tools.hidden = false;
for (const figure of figures) figure.tabIndex = 0;
filter();
