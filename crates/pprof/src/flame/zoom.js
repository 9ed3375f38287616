// Zooms into frames and searches names in a flame graph that is a file of its own.
(() => {
  const picture = document.documentElement, LABEL_CHARS_MIN = 3, PADDING = 6, DIM = "0.25";
  const details = picture.querySelector(".details"), rows = picture.querySelector(".frames");
  const frames = [...rows.querySelectorAll(".frame")].map((one) => {
    const text = one.querySelector("title").textContent, end = text.indexOf("\n");
    const [left, width] = ["x", "width"].map((name) => parseFloat(one.getAttribute(name)));
    return { one, name: text.slice(0, end), words: text.slice(end + 1), left, width, middle: left + width / 2,
      y: Number(one.getAttribute("y")) };
  });
  const root = frames[0], isOver = (one, other) => Math.abs(one.middle - other.middle) <= other.width / 2;
  let zoomed = root, charWidth = 7.3;

  // All widths are in percent: without a fixed width, the picture is as wide as the window.
  picture.removeAttribute("viewBox");
  picture.setAttribute("width", "100%");

  function measure() {
    const text = document.createElementNS(picture.namespaceURI, "text");
    text.textContent = "m".repeat(100);
    rows.append(text);
    charWidth = text.getComputedTextLength() / 100 || charWidth;
    text.remove();
  }
  function label(frame, width) {
    let text = frame.one.querySelector("text");
    const chars = Math.floor((picture.clientWidth * width / 100 - PADDING) / charWidth);
    if (chars < LABEL_CHARS_MIN) return text?.remove();
    if (!text) {
      text = document.createElementNS(picture.namespaceURI, "text");
      text.setAttribute("x", "3");
      text.setAttribute("y", "12.5");
      frame.one.append(text);
    }
    // The end says more than crate and module.
    text.textContent = frame.name.length <= chars ? frame.name : "…" + frame.name.slice(1 - chars);
  }
  function draw() {
    for (const frame of frames) {
      const isCaller = frame.y >= zoomed.y && isOver(zoomed, frame);
      const isCallee = frame.y < zoomed.y && isOver(frame, zoomed);
      frame.one.style.display = isCaller || isCallee ? "" : "none";
      if (!isCaller && !isCallee) continue;
      const width = isCaller ? 100 : frame.width / zoomed.width * 100;
      frame.one.setAttribute("x", `${isCaller ? 0 : (frame.left - zoomed.left) / zoomed.width * 100}%`);
      frame.one.setAttribute("width", `${width}%`);
      label(frame, width);
    }
    reset.hidden = zoomed === root;
  }
  function zoom(frame) {
    zoomed = frame;
    draw();
    search();
  }

  // Controls are created here: viewers without scripts show none.
  const html = (name, properties) =>
    Object.assign(document.createElementNS("http://www.w3.org/1999/xhtml", name), properties);
  const field = html("input", { type: "search", placeholder: "Search (regular expression)", size: 28, spellcheck: false });
  const found = html("output", {}), reset = html("button", { type: "button", textContent: "Reset zoom" });
  const bar = html("div", {});
  bar.style.cssText = "display:flex;gap:8px;justify-content:flex-end;align-items:center;font:12px sans-serif;padding:3px";
  bar.append(reset, found, field);
  const area = document.createElementNS(picture.namespaceURI, "foreignObject");
  for (const [name, value] of Object.entries({ x: "50%", y: 0, width: "50%", height: 30 })) area.setAttribute(name, value);
  area.append(bar);
  picture.append(area);

  function search() {
    let pattern = null;
    found.textContent = "";
    try {
      // Without capital letters, case does not matter.
      if (field.value) pattern = new RegExp(field.value, /\p{Lu}/u.test(field.value) ? "" : "i");
    } catch (error) {
      found.textContent = "not a regular expression";
    }
    let count = 0, part = 0, end = 0;
    for (const frame of frames) {
      const isMatch = pattern?.test(frame.name);
      frame.one.setAttribute("opacity", pattern && !isMatch ? DIM : "1");
      // Of a zoomed picture, what is visible.
      if (!isMatch || frame.y > zoomed.y || !isOver(frame, zoomed)) continue;
      count++;
      // Frames above a match are already counted with it.
      if (frame.middle >= end) [part, end] = [part + frame.width, frame.left + frame.width];
    }
    if (pattern) {
      const share = (part / zoomed.width * 100).toFixed(1);
      found.textContent = `${count} frame${count === 1 ? "" : "s"} found, ${share} % of the width`;
    }
  }

  const frameOf = (event) => frames.find(({ one }) => one === event.target.closest(".frame"));
  rows.addEventListener("click", (event) => {
    const frame = frameOf(event);
    if (frame) zoom(frame);
  });
  rows.addEventListener("mouseover", (event) => {
    const frame = frameOf(event);
    details.textContent = frame ? `${frame.name}: ${frame.words}` : "";
  });
  rows.addEventListener("mouseleave", () => details.textContent = "");
  reset.addEventListener("click", () => zoom(root));
  field.addEventListener("input", search);
  addEventListener("resize", draw);
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "f" || event.key === "F3") {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === "Escape") {
      field.value = "";
      field.blur();
      zoom(root);
    }
  });
  rows.style.cursor = "pointer";
  measure();
  draw();
})();
