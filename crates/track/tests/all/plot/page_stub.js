// The parts of a browser that the page's script uses.
var listeners = [];
function element(id) {
  const own = {
    id, hidden: false, value: "", textContent: "", style: {}, children: [], markup: "",
    setAttribute(name, value) { own[name] = value; },
    append(child) { own.children.push(child); },
    remove() { own.isRemoved = true; },
    addEventListener(type, act) { listeners.push([own, type, act]); },
    querySelector() { return own.markup.includes("<svg") ? own.picture ||= element("svg") : null; },
    closest() { return own; },
    focus() { document.focused = id; },
    getScreenCTM() { return { inverse() { return this; } }; },
    getBoundingClientRect() { return { width: 100, height: 50 }; },
    get innerHTML() { return own.markup; },
    set innerHTML(markup) { own.markup = markup; },
  };
  return own;
}
var ids = {};
var main = element("main"), innerWidth = 1200, innerHeight = 800;
var figures = source.panels.map((_, index) => element(`figure ${index}`));
for (const figure of figures.slice(0, source.pictures)) figure.innerHTML = "<svg>of the file</svg>";
var document = {
  getElementById: (id) => ids[id] ||= element(id),
  querySelector: () => main,
  querySelectorAll: () => figures,
  createElementNS: () => element("g"),
};
document.getElementById("data").textContent = JSON.stringify(source);
document.getElementById("tools").hidden = true;
document.getElementById("tip").hidden = true;
var observed = null;
class IntersectionObserver {
  constructor(act) { this.act = act; observed = this; }
  observe() {}
}
class DOMPoint {
  constructor(x, y) { this.x = x; this.y = y; }
  matrixTransform() { return this; }
}
function addEventListener(type, act) { listeners.push([null, type, act]); }
// Simulates user input.
function happen(target, type, more = {}) {
  const event = { target, preventDefault() {}, button: 0, pointerType: "mouse", ...more };
  for (const [own, kind, act] of listeners) {
    const isHeard = own === null || own === target || own === main && figures.includes(target);
    if (kind === type && isHeard) act(event);
  }
}
const see = (index, isIntersecting = true) => observed.act([{ target: figures[index], isIntersecting }]);
const shown = () => figures.filter((figure) => !figure.hidden).length;
const tip = () => ids.tip.hidden ? "" : ids.tip.innerHTML;
