// Zooms a flame graph to a frame and searches names while typing. Keeps the view in the address. Without a script the
// picture is the same, and the server searches.
const LABEL_PIXELS = 28, FOUND = "found", DIM = "0.3";
for (const graph of document.querySelectorAll("[data-flame]")) {
  const picture = graph.querySelector("svg.flame"), parameter = graph.dataset.flame;
  const page = (name) => graph.querySelector(`[data-${name}]`);
  const found = page("found"), words = page("words"), whole = page("whole"), around = page("around");
  const field = document.querySelector(".flame-tools [name=search]"), form = field.form;
  // Callees are above their callers, or below them in a picture that hangs.
  const upward = picture.classList.contains("hanging") ? -1 : 1;
  const frames = [...picture.querySelectorAll("svg.frame")].map((one) => {
    const text = one.querySelector("title").textContent, end = text.indexOf("\n");
    const [left, width] = ["x", "width"].map((name) => parseFloat(one.getAttribute(name)));
    return { one, name: text.slice(0, end), told: text.slice(end + 1), left, width, middle: left + width / 2,
      y: upward * Number(one.getAttribute("y")) };
  });
  const root = frames[0], among = (one, other) => Math.abs(one.middle - other.middle) <= other.width / 2;
  let shown = root;

  // A frame is identified in the address by its name and its index among frames of that name.
  const sameName = (name) => frames.filter((frame) => frame.name === name);
  const addressOf = (frame) => {
    const same = sameName(frame.name);
    return same.length > 1 ? `${frame.name}~${same.indexOf(frame) + 1}` : frame.name;
  };
  const called = (text) => {
    const [, name, number] = text.match(/^(.*)~(\d+)$/s) ?? [];
    return sameName(text)[0] ?? sameName(name)[number - 1] ?? root;
  };

  function label(frame) {
    let text = frame.one.querySelector("text");
    const fits = picture.clientWidth * parseFloat(frame.one.getAttribute("width")) / 100 >= LABEL_PIXELS;
    if (!text && fits) {
      text = document.createElementNS(picture.namespaceURI, "text");
      text.setAttribute("x", "3");
      text.setAttribute("y", "12.5");
      text.textContent = frame.name;
      frame.one.append(text);
    }
    text?.toggleAttribute("hidden", !fits);
  }
  function lay() {
    for (const frame of frames) {
      const isBelow = frame.y >= shown.y && among(shown, frame), isAbove = frame.y < shown.y && among(frame, shown);
      frame.one.toggleAttribute("hidden", !isBelow && !isAbove);
      frame.one.classList.toggle("caller", isBelow && frame !== shown);
      const left = isBelow ? 0 : (frame.left - shown.left) / shown.width * 100;
      frame.one.setAttribute("x", `${left}%`);
      frame.one.setAttribute("width", `${isBelow ? 100 : frame.width / shown.width * 100}%`);
      label(frame);
    }
    whole.hidden = shown === root;
    // The page of a service can show what is around a function.
    const to = new URL(location.href);
    around.hidden = shown === root || !document.querySelector("[data-functions]");
    for (const name of ["frame", "callee", "search"]) to.searchParams.delete(name);
    to.searchParams.set("function", shown.name);
    to.hash = "flame";
    around.href = to;
  }
  function keep() {
    const next = new URL(location.href), set = (name, value) =>
      value ? next.searchParams.set(name, value) : next.searchParams.delete(name);
    set(parameter, shown === root ? "" : addressOf(shown));
    set("search", field.value.trim());
    history.replaceState(null, "", next);
    for (const link of document.querySelectorAll(".flame-tools .choice a")) {
      const to = new URL(link.href);
      field.value.trim() ? to.searchParams.set("search", field.value.trim()) : to.searchParams.delete("search");
      link.href = to;
    }
  }
  function zoom(frame) {
    shown = frame;
    lay();
    keep();
  }
  function tell(frame) {
    words.textContent = frame ? `${frame.name}: ${frame.told}` : "";
  }
  function look() {
    const wanted = field.value.trim().toLowerCase();
    let count = 0, part = 0, end = 0;
    for (const frame of frames) {
      const is = wanted !== "" && frame.name.toLowerCase().includes(wanted);
      frame.one.classList.toggle(FOUND, is);
      if (wanted && !is) frame.one.setAttribute("opacity", DIM);
      else frame.one.removeAttribute("opacity");
      if (!is) continue;
      count++;
      // Frames above a match are already counted with it.
      if (frame.middle >= end) [part, end] = [part + frame.width, frame.left + frame.width];
    }
    found.textContent = wanted && `${count} frame${count === 1 ? "" : "s"} found, ${part.toFixed(1)} % of the width`;
  }

  // The nearest frame in a direction: up for callees, down for callers.
  function next(frame, pressed) {
    const turned = { ArrowUp: "ArrowDown", ArrowDown: "ArrowUp" }, key = upward < 0 && turned[pressed] || pressed;
    const seen = frames.filter((other) => !other.one.hasAttribute("hidden"));
    const row = (y) => seen.filter((other) => other.y === y), height = root.y - (frames[1]?.y ?? 0);
    if (key === "ArrowUp") return row(frame.y - height).filter((other) => among(other, frame)).sort((a, b) => b.width - a.width)[0];
    if (key === "ArrowDown") return row(frame.y + height).find((other) => among(frame, other));
    const same = row(frame.y).sort((a, b) => a.left - b.left), step = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    return step ? same[same.indexOf(frame) + step] : undefined;
  }
  function go(frame) {
    for (const { one } of frames) one.setAttribute("tabindex", "-1");
    frame.one.setAttribute("tabindex", "0");
    frame.one.focus({ preventScroll: false });
  }
  const frameOf = (event) => frames.find(({ one }) => one === event.target.closest("svg.frame"));

  picture.classList.add("zooms");
  words.hidden = false;
  for (const { one, name, told } of frames) {
    one.setAttribute("role", "button");
    one.setAttribute("aria-label", `${name}, ${told}`);
    one.setAttribute("tabindex", one === root.one ? "0" : "-1");
  }
  picture.addEventListener("click", (event) => {
    const frame = frameOf(event);
    if (frame) zoom(frame);
  });
  picture.addEventListener("mouseover", (event) => tell(frameOf(event)));
  picture.addEventListener("mouseleave", () => tell());
  picture.addEventListener("focusin", (event) => tell(frameOf(event)));
  picture.addEventListener("keydown", (event) => {
    const frame = frameOf(event);
    if (!frame || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") zoom(frame);
    else if (event.key === "Escape") {
      zoom(root);
      go(frame);
    } else {
      const other = next(frame, event.key);
      if (other) go(other);
      if (!event.key.startsWith("Arrow")) return;
    }
    event.preventDefault();
  });
  whole.addEventListener("click", () => {
    zoom(root);
    go(root);
  });
  field.addEventListener("input", () => {
    look();
    keep();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    look();
    keep();
  });
  new ResizeObserver(() => frames.forEach(label)).observe(picture);
  const asked = new URL(location.href).searchParams.get(parameter);
  shown = asked ? called(asked) : root;
  lay();
}
