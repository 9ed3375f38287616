// Selects a time range by dragging over a timeline. Without this script, each bar is a link that zooms in.
const MOVED_PIXELS = 5;
const timeOf = (ms) => new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000", "");
for (const hint of document.querySelectorAll("[data-drag]")) hint.hidden = false;
for (const svg of document.querySelectorAll(".timeline .bars")) {
  const from = Number(svg.dataset.from), until = Number(svg.dataset.until);
  const [last, fromName, untilName] = svg.dataset.names.split(" ");
  const choice = document.createElementNS(svg.namespaceURI, "rect");
  choice.setAttribute("class", "choice");
  choice.setAttribute("height", "90");
  choice.setAttribute("pointer-events", "none");
  let begin = null, isMoved = false;
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  };
  const end = () => {
    begin = null;
    choice.remove();
  };
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    begin = { x: event.clientX, place: place(event) };
    isMoved = false;
  });
  addEventListener("pointermove", (event) => {
    if (!begin) return;
    isMoved ||= Math.abs(event.clientX - begin.x) >= MOVED_PIXELS;
    if (!isMoved) return;
    const [left, right] = [begin.place, place(event)].sort((a, b) => a - b);
    choice.setAttribute("x", `${left * 100}%`);
    choice.setAttribute("width", `${(right - left) * 100}%`);
    if (!choice.isConnected) svg.append(choice);
  });
  addEventListener("pointerup", (event) => {
    if (!begin) return;
    const [left, right] = [begin.place, place(event)].sort((a, b) => a - b);
    end();
    if (!isMoved || (until - from) * (right - left) < 1000) return;
    // A bar's address includes the page's other parameters.
    const next = new URL(svg.querySelector("a").getAttribute("href"), location.href);
    next.searchParams.delete(last);
    next.searchParams.set(fromName, timeOf(from + (until - from) * left));
    next.searchParams.set(untilName, timeOf(from + (until - from) * right));
    location.assign(next);
  });
  // A click that ends a drag must not follow a link.
  svg.addEventListener("click", (event) => {
    if (isMoved) event.preventDefault();
    isMoved = false;
  }, true);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && begin) end();
  });
}
