// Checks each page of a server in a browser: no errors, no foreign requests, no horizontal overflow, no finding of
// axe-core, in both widths and colour schemes, with hostile names, with the keyboard alone, and without JavaScript. `node pages.mjs URL INVITATION
// [FOLDER-FOR-PICTURES]` (or the folder in PICTURES); exits with 1 on failure.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [base, invitation, pictures = process.env.PICTURES] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.BROWSER || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const faults = [];
// Cookies of the admin, after sign-in.
let signedIn;
let looks = 0;
const check = (is, what) => { looks++; if (!is) faults.push(what); };

// A page that records all errors. `mayFail` is for error pages.
async function open(path, options = {}, mayFail = false) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, storageState: signedIn, ...options });
  const page = await context.newPage();
  const name = `${path} (${page.viewportSize().width} px, ${options.colorScheme || "light"})`;
  const fault = (what) => faults.push(`${name}: ${what}`);
  page.on("console", (message) => {
    const isExpected = mayFail && message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isExpected) fault(message.text());
  });
  page.on("pageerror", (error) => fault(error));
  page.on("dialog", (dialog) => { fault(`a script of a name ran: ${dialog.message()}`); dialog.dismiss(); });
  await page.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(`${base}/`)) return route.continue();
    fault(`asks for ${url}`);
    return route.abort();
  });
  const response = await page.goto(base + path);
  check(mayFail || response.status() === 200, `${name}: answers ${response.status()}`);
  return { page, name, close: () => context.close() };
}
async function addressIn(path, pattern) {
  const text = await (await fetch(base + path)).text();
  const found = text.match(pattern);
  if (!found) throw new Error(`${path} has nothing like ${pattern}`);
  return found[0].replaceAll("&amp;", "&");
}

const article = "/perf/fun-xdp", hostile = "/perf/hostile";
const report = await addressIn(`${article}/reports?branch=tidy-fibonacci`, /\/perf\/fun-xdp\/reports\/[0-9a-f-]{36}/);
const alert = await addressIn(`${article}/alerts`, /\/perf\/fun-xdp\/alerts\/[0-9a-f-]{36}/);
const hostileReport = await addressIn(`${hostile}/reports`, /\/perf\/hostile\/reports\/[0-9a-f-]{36}/);
const hostileAlert = await addressIn(`${hostile}/alerts?status=all`, /\/perf\/hostile\/alerts\/[0-9a-f-]{36}/);
// An alert and a comparison with profiles, of the regression in the newest branch.
const causes = await addressIn(`${article}/compare/main..tidy-fibonacci`, /\/perf\/fun-xdp\/compare\/[0-9a-f.-]+\/cause\?[^"]*/);
const explained = await addressIn(`${article}/alerts?status=all`, /\/perf\/fun-xdp\/alerts\/[0-9a-f-]{36}(?="><bdi class="name">queue\/push)/);
const hostileCause = await addressIn(`${hostile}/alerts?status=all`, /\/perf\/hostile\/alerts\/[0-9a-f-]{36}(?="><bdi class="name">right-to-left)/);
const hostileService = await addressIn(`${hostile}/profiles`, /\/perf\/hostile\/profiles\/%3C%2Fscript[^"]*/);
const hostileCompare = `${hostileService}/compare?last=20m&search=%3C%2Fscript%3E`;
const largeReport = await addressIn("/perf/large/reports", /\/perf\/large\/reports\/[0-9a-f-]{36}/);

const pages = {
  projects: "/", login: "/auth/login", series: article, console: "/console/projects/fun-xdp",
  changed: `${article}?changed=yes&sort=change&direction=desc`,
  plot: `${article}/plot?benchmark=fun_xdp_v3&benchmark=table/rebuild&measure=latency`,
  "plot-look": `${article}/plot?benchmark=fun_xdp_*&measure=latency&charts=measure&y=log&x=version&hide=fun_xdp_v0%20%C2%B7%20arm-runner`,
  "plot-all": `${article}/plot`, "plot-empty": `${article}/plot?benchmark=none*`, embed: `${article}/embed?benchmark=fun_xdp_v3&measure=latency`,
  reports: `${article}/reports`, report, "compare-form": `${article}/compare`,
  compare: `${article}/compare/main..tidy-fibonacci`, "compare-all": `${article}/compare/main..tidy-fibonacci?show=all`,
  alerts: `${article}/alerts?status=all`, alert, benchmarks: `${article}/benchmarks`, branches: `${article}/branches`,
  testbeds: `${article}/testbeds`, plots: `${article}/plots`, thresholds: `${article}/thresholds`, measures: `${article}/measures`, branch: `${article}/branches/main`,
  "cause-folded": explained, cause: `${explained}?view=difference`, vanished: `${explained}?view=vanished`, "cause-search": `${explained}?search=fibonacci`,
  "compare-cause": causes, "hostile-cause": `${hostileCause}?view=vanished`,
  hostile, "hostile-plot": `${hostile}/plot`, "hostile-report": hostileReport, "hostile-alert": hostileAlert,
  profiles: `${article}/profiles`, "profiles-found": `${article}/profiles?service=packet`, service: `${article}/profiles/packet-filter`,
  "service-hours": `${article}/profiles/packet-filter?last=3h&type=process_cpu:cpu&label=host_name%3Dedge-2&search=fibonacci`,
  "service-memory": `${article}/profiles/packet-filter?last=1h&type=memory:inuse_space`, "service-old": `${article}/profiles/api?from=2026-01-01&until=2026-01-02`,
  "service-around": `${article}/profiles/packet-filter?last=1h&function=fun_xdp::classify`, "service-nothing": `${article}/profiles/packet-filter?last=1h&function=none`,
  "service-compare": `${article}/profiles/packet-filter/compare?last=30m`, "service-vanished": `${article}/profiles/packet-filter/compare?last=30m&view=vanished&show=all`,
  "service-hosts": `${article}/profiles/packet-filter/compare?last=30m&base_last=30m&base_label=host_name%3Dedge-1&label=host_name%3Dedge-2`,
  "no-profiles": "/perf/large/profiles", "hostile-profiles": `${hostile}/profiles`, "hostile-service": hostileService, "hostile-service-compare": hostileCompare,
  "hostile-names": `${hostile}/benchmarks`, "hostile-compare": `${hostile}/compare/main..main?show=all`,
};
// Pages for signed-in users.
const own = {
  "signed-in": article, "alert-of-member": alert, "alerts-of-member": `${article}/alerts?select=all`, settings: `${article}/settings`, threshold: `${article}/thresholds/add`, benchmark: `${article}/benchmarks/fun_xdp_v3`, keys: `${article}/keys`,
  "hostile-settings": `${hostile}/settings`, account: "/console/account", users: "/console/users",
};
const failures = {
  "no-page": "/nothing", "no-report": `${article}/reports/abc`, "no-project": "/perf/none",
  "no-side": `${article}/compare/main..none`, "no-day": `${article}/plot?from=yesterday`, "no-axis": `${article}/plot?y=cubic`,
  "no-service": `${article}/profiles/none`, "no-time": `${article}/profiles/api?from=yesterday`, "no-type": `${article}/profiles/api?type=x:y`,
  "long-name": `${article}/benchmarks/${"x".repeat(4096)}`,
  "script-name": `${article}/benchmarks/${encodeURIComponent("</script><script>alert(1)</script>\u202e")}`,
};

// What axe-core finds about accessibility. Its script is evaluated, because the pages' policy forbids to add one. In the
// other colour scheme only colours differ.
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
async function accessible(page, where, colorScheme) {
  await page.evaluate(axe);
  const find = (options) => page.evaluate(async (options) => (await axe.run({ resultTypes: ["violations"], ...options }))
    .violations
    // A frame shows the beginning of a very long name.
    .map(({ id, nodes }) => ({ id, nodes: nodes.filter(({ html }) => id !== "label-content-name-mismatch" || !html.startsWith('<svg class="frame"')) }))
    .filter(({ nodes }) => nodes.length > 0)
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`), options);
  for (const found of await find({})) check(false, `${where}: ${found}`);
  await page.emulateMedia({ colorScheme: colorScheme === "dark" ? "light" : "dark" });
  const colours = ["color-contrast", "link-in-text-block"];
  for (const found of await find({ runOnly: colours })) check(false, `${where}, the other scheme: ${found}`);
  await page.emulateMedia({ colorScheme });
  looks += 2;
}

async function lookAt(name, path, mayFail) {
  for (const [width, colorScheme] of [[360, "dark"], [1440, "light"]]) {
    const { page, name: where, close } = await open(path, { viewport: { width, height: 900 }, colorScheme }, mayFail);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(over <= 0, `${where}: wider than the window by ${over} px`);
    check(await page.locator("h1").count() === 1, `${where}: has no single heading`);
    const [back, text] = await page.evaluate(() => {
      const style = getComputedStyle(document.body);
      return [style.backgroundColor, style.color];
    });
    const isDark = Number(back.match(/\d+/)[0]) < 128;
    check(isDark === (colorScheme === "dark") && back !== text, `${where}: ${text} on ${back}`);
    const unnamed = await page.evaluate(() => [...document.querySelectorAll("a, button, input, select")].filter((one) =>
      !one.hidden && one.type !== "hidden" && !(one.textContent.trim() || one.ariaLabel || one.labels?.length || one.title
        || one.querySelector("img[alt]:not([alt=''])"))).map((one) => one.outerHTML.slice(0, 100)));
    check(unnamed.length === 0, `${where}: without a name: ${unnamed}`);
    await accessible(page, where, colorScheme);
    if (pictures) await page.screenshot({ path: `${pictures}/${name}-${width}-${colorScheme}.png`, fullPage: true });
    await close();
  }
}

// Everything reachable by mouse is reachable by Tab, with a visible focus.
async function keyboard() {
  const { page, name, close } = await open(article);
  await page.keyboard.press("Tab");
  check(await page.evaluate(() => document.activeElement.className) === "skip", `${name}: Tab does not begin at the skip link`);
  const seen = new Set();
  for (let count = 0; count < 60; count++) {
    await page.keyboard.press("Tab");
    const { label, outline } = await page.evaluate(() => {
      const one = document.activeElement, style = getComputedStyle(one);
      return { label: one.name || one.textContent.trim(), outline: style.outlineStyle };
    });
    check(outline !== "none", `${name}: focus on ${label} is not visible`);
    seen.add(label);
  }
  for (const wanted of ["Plot", "branch", "benchmark", "Show", "fun_xdp_v0", "Newest"]) {
    check(seen.has(wanted), `${name}: Tab does not reach ${wanted}`);
  }
  await page.getByRole("link", { name: "Compare", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Before").fill("main");
  await page.getByLabel("After").fill("tidy-fibonacci");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/compare/main..tidy-fibonacci");
  check(await page.getByText("fun_xdp_v3").count() > 0, "compare by keyboard: fun_xdp_v3 is not there");
  await close();
}

// The brush: charts, the list of reports and the address follow, by mouse and by keys. Each zoom is a step back, and a
// reload keeps it.
async function zoom() {
  const { page, name, close } = await open(`${article}/plot?benchmark=fun_xdp_v3&measure=latency&testbed=ci-runner`);
  const listed = () => page.locator("#range tr[data-place]:not([hidden])").count();
  const all = await listed();
  const drag = async () => {
    const svg = await page.locator("figure svg").first().boundingBox();
    await page.mouse.move(svg.x + svg.width * 0.3, svg.y + svg.height * 0.5);
    await page.mouse.down();
    await page.mouse.move(svg.x + svg.width * 0.5, svg.y + svg.height * 0.5, { steps: 4 });
    await page.mouse.up();
    return listed();
  };
  const some = await drag();
  check(some > 1 && some < all, `${name}: ${some} of ${all} reports after zooming`);
  check(/zoom=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.\.\d{4}-/.test(page.url()), `${name}: the address is ${page.url()}`);
  check(await page.locator("#range-compare").isVisible(), `${name}: no link compares the ends of the range`);
  const few = await drag();
  check(few > 1 && few < some, `${name}: ${few} of ${some} reports after zooming again`);
  await page.reload();
  check(await listed() === few, `${name}: a reload shows ${await listed()} reports, not ${few}`);
  for (const [act, expected] of [["goBack", some], ["goBack", all], ["goForward", some]]) {
    await page[act]();
    check(await listed() === expected, `${name}: ${act} shows ${await listed()} reports, not ${expected}`);
  }
  await page.reload();
  await page.keyboard.press("Escape");
  check(await listed() === all && !page.url().includes("zoom="), `${name}: Escape after a reload shows ${await listed()} of ${all} reports: ${page.url()}`);
  await page.locator("figure").first().focus();
  await page.keyboard.press("ArrowLeft");
  check(await page.locator("#tip").isVisible(), `${name}: no words about the value under the cursor`);
  for (let count = 0; count < 3; count++) await page.keyboard.press("+");
  const near = await listed();
  check(near < all, `${name}: + does not zoom`);
  await page.getByLabel("Vertical axis").selectOption("logarithmic");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL("**y=log**");
  check(await listed() === near, `${name}: the form shows ${await listed()} reports, not ${near}`);
  await page.getByRole("button", { name: "Show all reports" }).click();
  check(await listed() === all, `${name}: the button does not show all reports`);
  await close();
}

// Check boxes choose series, dropdowns the axes, and the legend hides lines.
async function chooser() {
  const { page, name, close } = await open(`${article}/plot?benchmark=fun_xdp_v3&measure=latency&testbed=ci-runner`, { javaScriptEnabled: false });
  const tick = async (kind, box, is) => {
    const heading = page.locator("summary", { hasText: kind });
    await heading.click();
    await page.getByRole("checkbox", { name: box, exact: true }).setChecked(is);
    await heading.click();
  };
  const lines = page.getByRole("navigation", { name: "Lines" }).getByRole("link"), labels = page.locator("figure svg .label");
  const title = () => page.locator("figure svg .title").first().textContent();
  check(await lines.count() === 0 && await labels.count() === 1, `${name}: a single line has a legend`);
  // It may have another name by now.
  await tick("Branches", /^(tidy-fibonacci|a-tidy-one)$/, true);
  await tick("Benchmarks", "fun_xdp_v2", true);
  await page.getByLabel("Charts").selectOption("one per measure");
  await page.getByLabel("Vertical axis").selectOption("logarithmic");
  await page.getByLabel("Horizontal axis").selectOption("by commit");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL("**branch=main&**branch=tidy-fibonacci&**");
  check(await page.locator("figure").count() === 1, `${name}: ${await page.locator("figure").count()} charts instead of one`);
  check((await title()).startsWith("2 benchmarks · Latency") && (await title()).includes("logarithmic"), `${name}: the chart is called ${await title()}`);
  check(await lines.count() === 4 && await labels.count() === 4, `${name}: ${await lines.count()} lines in the legend, ${await labels.count()} in the chart`);
  const colour = () => labels.filter({ hasText: /fun_xdp_v3 · .*tidy/ }).getAttribute("class"), before = await colour();
  await page.getByRole("link", { name: "Hide fun_xdp_v2 · main" }).click();
  await page.waitForURL("**hide=fun_xdp_v2**");
  check(await labels.count() === 3 && await lines.count() === 5, `${name}: ${await labels.count()} lines after hiding one`);
  check(await colour() === before, `${name}: a line changes its colour when another is hidden`);
  await page.getByRole("link", { name: "Show all lines" }).click();
  check(await labels.count() === 4, `${name}: ${await labels.count()} lines after showing all`);
  await tick("Branches", /^(tidy-fibonacci|a-tidy-one)$/, false);
  await page.getByRole("button", { name: "Show", exact: true }).click();
  check(await lines.count() === 2, `${name}: ${await lines.count()} lines without the branch`);
  await tick("Testbeds", "ci-runner", false);
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL((url) => !url.search.includes("testbed="));
  const [reports, columns] = await page.evaluate(() => {
    const { columns, stamps } = JSON.parse(document.getElementById("data").textContent);
    return [stamps.length, columns.length];
  });
  check(columns > 10 && columns < 0.7 * reports, `${name}: ${reports} reports have ${columns} columns by commit`);
  await close();
}

// Ticked series of the table are one chart.
async function together() {
  const { page, name, close } = await open(`${article}?measure=latency&testbed=ci-runner`);
  for (const one of ["fun_xdp_v1", "queue/push"]) await page.getByLabel(`Tick ${one}`).check();
  await page.getByRole("button", { name: "Plot ticked ones together" }).click();
  await page.waitForURL("**/plot?**");
  const lines = await page.getByRole("navigation", { name: "Lines" }).getByRole("link").allTextContents();
  check(await page.locator("figure").count() === 1 && lines.join() === "fun_xdp_v1,queue/push", `${name}: one chart has ${lines}`);
  await close();
}

// On a phone the vertical axis with its unit, the direction and the key are in sight, at the newest values.
async function phone() {
  for (const width of [390, 360]) {
    const { page, name, close } = await open(`${article}/plot?benchmark=fun_xdp_v3&measure=latency`, { viewport: { width, height: 800 } });
    const seen = await page.evaluate(() => {
      const figure = document.querySelector("figure"), { left, right } = figure.getBoundingClientRect();
      const inside = (one) => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && box.left >= left - 1 && box.right <= right + 1;
      };
      const chart = figure.querySelector("svg").getBoundingClientRect(), ruler = figure.querySelector(".ruler").getBoundingClientRect();
      const signs = document.querySelector(".signs");
      return { scrolled: figure.scrollLeft, ruler: inside(figure.querySelector(".ruler")), height: Math.abs(chart.height - ruler.height),
        unit: [...figure.querySelectorAll(".ruler text")].at(-1).textContent, ticks: [...figure.querySelectorAll(".ruler text")].every(inside), words: document.querySelector(".narrow").textContent,
        label: inside(figure.querySelector(".label .value")), over: signs.scrollWidth - signs.clientWidth };
    });
    check(seen.scrolled > 100 && seen.ruler && seen.ticks && seen.height < 1 && seen.label, `${name}: axis and newest values are not in sight: ${JSON.stringify(seen)}`);
    check(/s$/.test(seen.unit) && seen.words.includes("lower is better") && seen.over <= 0, `${name}: unit, direction or key are not in sight: ${JSON.stringify(seen)}`);
    await close();
  }
}

// A header sorts on the client, and on the server without a script.
async function sorting() {
  const first = (page) => page.locator("table tbody tr").first().locator("th").textContent();
  const { page, name, close } = await open(`${article}?measure=latency&testbed=ci-runner`);
  let requests = 0;
  page.on("request", (request) => { if (request.isNavigationRequest()) requests++; });
  await page.locator("thead").getByText("Newest").click();
  const sorted = await first(page);
  check(requests === 0 && sorted === "loader/attach", `${name}: ${sorted} comes first after ${requests} requests`);
  await close();
  const plain = await open(`${article}?measure=latency&testbed=ci-runner`, { javaScriptEnabled: false });
  await plain.page.locator("thead").getByText("Newest").click();
  await plain.page.waitForURL("**sort=newest**");
  check(await first(plain.page) === sorted, `${name}: without a script ${await first(plain.page)} comes first`);
  await plain.page.getByLabel("Benchmark").fill("queue/*");
  await plain.page.getByRole("button", { name: "Show" }).click();
  check(await plain.page.locator("tbody tr").count() === 2, `${name}: a glob finds ${await plain.page.locator("tbody tr").count()}`);
  await plain.close();
}

// The flame graph of an alert's cause: zoom and search by mouse and by keys; the address restores the view.
async function flame() {
  const { page, name, close } = await open(explained);
  const picture = page.locator("svg.flame"), frames = picture.locator("svg.frame:not([hidden])");
  check(!(await picture.isVisible()), `${name}: the flame graph is not folded`);
  await page.getByText("Flame graph of the difference").click();
  check(await picture.isVisible(), `${name}: the flame graph does not unfold`);
  const all = await frames.count();
  await picture.locator("svg.frame", { hasText: "fibonacci::compute" }).first().click();
  const some = await frames.count();
  check(some > 1 && some < all, `${name}: ${some} of ${all} frames after zooming`);
  check(page.url().includes("frame=fibonacci"), `${name}: the address is ${page.url()}`);
  const zoomed = page.url();
  await page.keyboard.press("Escape");
  check(await frames.count() === all, `${name}: Escape does not show all frames`);
  await page.goto(zoomed);
  check(await frames.count() === some, `${name}: the address shows ${await frames.count()} frames, not ${some}`);
  await page.getByRole("button", { name: "Show all frames" }).click();
  check(await frames.count() === all, `${name}: the button does not show all frames`);
  for (const key of ["ArrowUp", "ArrowUp"]) await page.keyboard.press(key);
  const focused = () => page.evaluate(() => document.activeElement.ariaLabel ?? "");
  check((await focused()).startsWith("criterion::iter"), `${name}: arrows lead to ${await focused()}`);
  check((await page.locator("[data-words]").textContent()).startsWith("criterion::iter: "), `${name}: no words about the frame in focus`);
  await page.keyboard.press("Enter");
  check(page.url().includes("frame=criterion"), `${name}: Enter does not zoom`);
  await page.getByLabel("Search functions").fill("FIBONACCI");
  const said = await page.locator("[data-found]").textContent();
  check(/^\d+ frames found, \d+\.\d % of the width$/.test(said), `${name}: a search says ${said}`);
  check(page.url().includes("search=FIBONACCI"), `${name}: the search is not in ${page.url()}`);
  const count = await picture.locator(".found").count();
  await page.getByRole("link", { name: "What vanished" }).click();
  await page.waitForURL("**view=vanished**");
  check(await picture.locator("svg.frame", { hasText: "fibonacci::lookup" }).count() > 0, `${name}: what vanished is not there`);
  await close();
  const plain = await open(`${explained}?search=FIBONACCI`, { javaScriptEnabled: false });
  check(await plain.page.locator("svg.flame .found").count() === count, `${name}: the server finds other frames than the script`);
  await plain.page.getByRole("link", { name: "What vanished" }).click();
  await plain.page.waitForURL("**view=vanished**");
  check(await plain.page.locator("svg.flame").isVisible(), `${name}: no flame graph without a script`);
  await plain.close();
}

// Pages work without a script, including pictures.
async function withoutScript() {
  for (const path of [`${article}/plot?benchmark=fun_xdp_v3`, alert, report]) {
    const { page, name, close } = await open(path, { javaScriptEnabled: false });
    check(await page.locator("h1").isVisible(), `${name}: has no heading without a script`);
    if (path !== report) check(await page.locator("figure svg").first().isVisible(), `${name}: no picture without a script`);
    await close();
  }
}

// The timeline: select by dragging, or follow a bar; zoom the flame graph below.
async function timeline() {
  const { page, name, close } = await open(`${article}/profiles/packet-filter?last=3h`);
  check(await page.getByText("Drag over the bars").isVisible(), `${name}: nothing says that the bars take a drag`);
  const svg = await page.locator(".timeline .bars").boundingBox();
  await page.mouse.move(svg.x + svg.width * 0.2, svg.y + 40);
  await page.mouse.down();
  await page.mouse.move(svg.x + svg.width * 0.5, svg.y + 40, { steps: 4 });
  check(await page.locator(".timeline .choice").count() === 1, `${name}: nothing shows what is drawn over`);
  await page.mouse.up();
  await page.waitForURL(/from=\d{4}-\d\d-\d\dT[^&]*&until=/);
  const [from, until] = ["from", "until"].map((field) => Date.parse(new URL(page.url()).searchParams.get(field)));
  const minutes = (until - from) / 60000;
  check(Math.abs(minutes - 54) < 3 && !page.url().includes("last="), `${name}: ${minutes} minutes were chosen, not 54: ${page.url()}`);
  const frames = page.locator("svg.flame svg.frame:not([hidden])"), all = await frames.count();
  await page.locator("svg.flame svg.frame", { hasText: "events::handle" }).first().click();
  check(await frames.count() < all && page.url().includes("frame=events"), `${name}: a click fills nothing: ${page.url()}`);
  await page.getByLabel("Search functions").fill("checksum");
  check((await page.locator("[data-found]").textContent()).startsWith("1 frame found"), `${name}: the search finds nothing`);
  await close();
  const plain = await open(`${article}/profiles/packet-filter?last=3h`, { javaScriptEnabled: false });
  check(!(await plain.page.getByText("Drag over the bars").isVisible()), `${name}: promises a drag without a script`);
  await plain.page.locator(".timeline a").nth(20).click();
  await plain.page.waitForURL(/from=.*until=/);
  check(await plain.page.locator("svg.flame").isVisible(), `${name}: no flame graph without a script`);
  await plain.page.getByRole("link", { name: "More time" }).click();
  await plain.page.getByRole("link", { name: "Self" }).click();
  await plain.page.getByRole("link", { name: "Compare with the previous time range" }).click();
  await plain.page.getByLabel("host_name").last().selectOption("edge-2");
  await plain.page.getByRole("button", { name: "Compare" }).click();
  await plain.page.waitForURL(/label=host_name%3Dedge-2/);
  await plain.close();
  const pprof = await fetch(`${base}${article}/profiles/packet-filter/profile.pb.gz?last=1h`);
  const bytes = new Uint8Array(await pprof.arrayBuffer());
  check(bytes[0] === 0x1f && bytes[1] === 0x8b, `${name}: the download is no gzip`);
}

// Callers and callees of a function, comparisons by one click, and links from their functions to the graph.
async function around() {
  const { page, name, close } = await open(`${article}/profiles/packet-filter?last=20m`);
  const values = await page.locator(".timeline .values text").allTextContents();
  check(values.length > 1 && values.every((value) => / m?CPU$/.test(value)), `${name}: the timeline has the values ${values}`);
  await page.locator("svg.flame svg.frame", { hasText: "events::handle" }).first().click();
  await page.getByRole("link", { name: "Callers and callees", exact: true }).click();
  await page.waitForURL("**function=events**");
  await page.getByRole("link", { name: "Callers and callees of fun_xdp::classify" }).click();
  await page.waitForURL("**function=fun_xdp**");
  const titles = (at) => page.locator("svg.flame").nth(at).locator("svg.frame > title").allTextContents();
  const names = async (at) => (await titles(at)).map((title) => title.split("\n")[0]);
  const [callers, callees] = [await names(0), await names(1)];
  check(callers.join() === "fun_xdp::classify,events::handle,run,main", `${name}: the callers are ${callers}`);
  check(callees[0] === "fun_xdp::classify" && callees.includes("parse::checksum") && !callees.includes("run"), `${name}: the callees are ${callees}`);
  const tops = await page.locator("svg.flame").nth(1).locator("svg.frame").evaluateAll((all) => all.map((one) => Number(one.getAttribute("y"))));
  check(tops[0] === 0 && tops.slice(1).every((y) => y > 0), `${name}: callees are not below: ${tops}`);
  const hanging = page.locator("svg.flame").nth(1).locator("svg.frame:not([hidden])"), all = await hanging.count();
  await hanging.filter({ hasText: "parse::ipv4" }).first().click();
  const some = await hanging.count();
  check(some < all && page.url().includes("callee=parse"), `${name}: a click on a callee shows ${some} of ${all} frames: ${page.url()}`);
  await page.reload();
  check(await hanging.count() === some, `${name}: a reload shows ${await hanging.count()} frames, not ${some}`);
  await page.getByLabel("Search functions").fill("checksum");
  const found = await page.locator("[data-found]").allTextContents();
  check(found[0].startsWith("0 frames") && found[1].startsWith("1 frame "), `${name}: a search in both pictures says ${found}`);
  await page.getByRole("link", { name: "Show the whole flame graph" }).click();
  await page.waitForURL((url) => !url.search.includes("function="));
  for (const words of ["the previous time range", "an hour before", "a day before"]) {
    check(await page.getByRole("link", { name: `Compare with ${words}` }).count() === 1, `${name}: no comparison with ${words}`);
  }
  await page.getByRole("link", { name: "Compare with version 1.4.0" }).click();
  await page.waitForURL("**base_label=version%3D1.4.0**");
  check(page.url().includes("&label=version%3D1.5.0"), `${name}: the comparison is ${page.url()}`);
  await page.locator("table").getByRole("link", { name: "fibonacci::compute" }).click();
  await page.waitForURL("**search=fibonacci**#flame");
  check(await page.locator("svg.flame .found").count() === 1, `${name}: the function is not found in the graph`);
  await close();
}

// Becomes the admin, and performs privileged actions.
async function sign() {
  const { page, close } = await open(new URL(invitation).pathname);
  await page.locator("[name=name]").fill("Ada");
  await page.locator("[name=email]").fill("ada@example.org");
  for (const field of ["new", "again"]) await page.locator(`[name=${field}]`).fill("correct horse battery staple");
  await page.getByRole("button").first().click();
  await page.waitForURL(`${base}/`);
  signedIn = await page.context().storageState();
  await close();
}
async function change() {
  const { page, name, close } = await open(alert);
  await page.getByLabel("Reason").fill("<b>worth it</b>");
  await page.getByRole("button", { name: "Dismiss" }).click();
  await page.getByText("dismissed").first().waitFor();
  check(await page.getByText("<b>worth it</b>").count() === 1, `${name}: the reason is not there`);
  await page.getByRole("button", { name: "Silence" }).click();
  await page.getByText("silenced").first().waitFor();
  await page.getByRole("button", { name: "Make active again" }).click();
  await page.getByText("active").first().waitFor();
  await page.goto(`${base}${article}/settings`);
  await page.getByLabel("Name").fill("Fun with XDP");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  check(await page.locator(".crumbs .name").textContent() === "Fun with XDP", "settings: the name is not saved");
  await page.getByRole("link", { name: "Keys of this project" }).click();
  await page.getByLabel("Name").fill("ci");
  await page.getByRole("button", { name: "Create" }).click();
  check(/^bencher_run_\w{30}$/.test(await page.locator("pre").first().textContent()), "keys: no key is shown");
  await page.getByRole("link", { name: "Back to the keys" }).click();
  await page.getByRole("button", { name: "Revoke" }).click();
  await page.locator("td").getByText("revoked").waitFor();
  await page.goto(`${base}${article}/thresholds/add`);
  await page.getByLabel("Measure").selectOption("Latency");
  await page.locator("[name=test]").selectOption("percentage");
  await page.getByLabel("Upper boundary").fill("0.25");
  await page.getByRole("button", { name: "Add it" }).click();
  await page.getByText("percentage, upper boundary 0.25").waitFor();
  await page.getByLabel("Upper boundary").fill("0.5");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("percentage, upper boundary 0.5", { exact: true }).waitFor();
  check(await page.getByText("upper boundary 0.25").count() === 1, "thresholds: the earlier model is not shown");
  await page.getByRole("button", { name: "Remove" }).click();
  await page.getByText("There is none.").waitFor();
  await page.goto(`${base}${article}/branches/tidy-fibonacci`);
  await page.getByLabel("Name").fill("a-tidy-one");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Results call it").waitFor();
  check(await page.locator("h1").textContent() === "a-tidy-one", "names: the new name is not shown");
  await close();
}

// Selects causes and settles them, by keys alone and without JavaScript.
async function settle() {
  const { page, name, close } = await open(`${article}/alerts`, { javaScriptEnabled: false });
  const rows = () => page.locator("tbody tr:not(.more)").count();
  const all = await rows();
  check(all > 2, `${name}: only ${all} causes`);
  await page.getByRole("checkbox", { name: "Select" }).first().focus();
  await page.keyboard.press("Space");
  await page.getByLabel("Reason").fill("<i>known</i>");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText(/^\d+ alerts? dismissed\.$/).waitFor();
  check(await rows() === all - 1, `${name}: ${await rows()} of ${all} causes are left`);
  await page.getByRole("link", { name: "Select all" }).click();
  await page.waitForURL("**select=all**");
  check(await page.locator("[name=cause]:checked").count() === all - 1, `${name}: not all are selected`);
  await page.getByRole("button", { name: "Settle selected" }).click();
  await page.getByText("No alert is active.").waitFor();
  await page.getByRole("link", { name: "Show settled ones" }).click();
  check(await page.getByText("<i>known</i>").count() > 0, `${name}: the reason is not there`);
  await close();
}

// A new name appears on each page of the thing, and is searchable; the old one appears nowhere, but its addresses still
// work.
async function rename() {
  const { page, name, close } = await open(`${article}/benchmarks/fun_xdp_v3`);
  for (const [kind, stored, now] of [["benchmarks", "fun_xdp_v3", "classifier/third"], ["testbeds", "ci-runner", "the-rack"],
    ["measures", "latency", "Time per packet"]]) {
    await page.goto(`${base}${article}/${kind}/${stored}`);
    await page.getByLabel("Name").fill(now);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Results call it").waitFor();
  }
  const compared = `${article}/compare/main..a-tidy-one`;
  for (const [path, names] of [
    [`${article}?benchmark=classifier/*&measure=latency`, ["classifier/third", "Time per packet", "the-rack"]],
    [`${article}/plot?benchmark=classifier/third&measure=latency`, ["classifier/third", "Time per packet", "the-rack"]],
    [`${article}/plot?benchmark=fun_xdp_v3&branch=a-tidy-one`, ["classifier/third", "a-tidy-one"]],
    [`${article}/reports?branch=tidy-fibonacci`, ["a-tidy-one", "the-rack"]],
    [report, ["classifier/third", "Time per packet", "a-tidy-one", "the-rack"]],
    [compared, ["classifier/third", "a-tidy-one", "the-rack"]],
    [`${article}/alerts?status=all`, ["classifier/third", "a-tidy-one", "the-rack"]],
    [alert, ["the-rack"]],
    [`${article}/benchmarks`, ["classifier/third"]], [`${article}/thresholds/add`, ["Time per packet", "the-rack"]],
  ]) {
    await page.goto(base + path);
    // Addresses have the old names; visible text does not.
    const [text, chosen] = await page.evaluate(() => [document.body.innerText + document.title,
      [...document.querySelectorAll("option")].map((one) => one.textContent).join("\n")]);
    for (const wanted of names) check((text + chosen).includes(wanted), `${path}: has no ${wanted}`);
    for (const old of ["fun_xdp_v3", "ci-runner", "tidy-fibonacci", "Latency"]) {
      check(!(text + chosen).includes(old), `${path}: still has ${old}`);
    }
  }
  await page.goto(`${base}${article}/badge.svg?benchmark=fun_xdp_v3&measure=latency`);
  check((await page.content()).includes("classifier/third Time per packet"), `${name}: the badge has the old name`);
  await close();
}

// Pins, links, opens and removes a plot.
async function pins() {
  const { page, name, close } = await open(`${article}/plot?benchmark=fun_xdp_*&measure=latency&measure=instructions&y=log&x=version`);
  await page.getByText("Pin this plot").click();
  check(await page.getByText(/It will list the \d benchmarks that fun_xdp_\* finds now/).count() === 1, `${name}: nothing says what becomes of a glob`);
  await page.locator("[name=title]").fill("Each <b>morning</b>");
  await page.getByLabel("It shows the last").selectOption("30");
  await page.getByRole("button", { name: "Pin it" }).click();
  await page.getByRole("heading", { name: "Pinned plots" }).waitFor();
  const row = page.locator("tbody tr").first();
  check(/\d benchmarks/.test(await row.textContent()), `${name}: the pin says ${await row.textContent()}`);
  check((await row.textContent()).includes("30 days"), `${name}: the pin does not say how far it looks back`);
  await page.goto(base + article);
  await page.getByRole("link", { name: "Each <b>morning</b>" }).click();
  await page.waitForURL("**/plot?branch=main&**");
  check(await page.locator("h1").textContent() === "Each <b>morning</b>", `${name}: the plot has not its title`);
  check(/from=\d{4}-\d\d-\d\d/.test(page.url()) && page.url().includes("&y=log&x=version"), `${name}: a pinned plot opens ${page.url()}`);
  check(await page.locator("figure").count() > 2, `${name}: the plot shows ${await page.locator("figure").count()} charts`);
  await lookAt("pinned", new URL(page.url()).href.slice(base.length), false);
  await lookAt("pins", `${article}/plots`, false);
  await page.goto(`${base}${article}/plots`);
  await page.getByRole("button", { name: "Remove Each" }).click();
  await page.getByText("There is none.").waitFor();
  await close();
}

// Withdraws a report: requires a reason, and removes it from lists.
async function withdraw() {
  const { page, name, close } = await open(report);
  await page.getByText("Delete this report").click();
  await page.getByLabel("Reason").fill("measured on a <busy> machine");
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("The report was deleted.").waitFor();
  check(await page.locator(`a[href="${report}"]`).count() === 0, `${name}: the list still has it`);
  await close();
  const gone = await open(report, {}, true);
  check(await gone.page.getByText("may have been deleted").count() === 1, `${name}: its page does not say what happened`);
  await gone.close();
}

// The client's addresses with UUIDs redirect to readable ones.
async function addresses() {
  const listed = async (kind, name) => {
    const all = await (await fetch(`${base}/v0/projects/fun-xdp/${kind}?per_page=255`)).json();
    return all.find((one) => one.name === name || one.slug === name)?.uuid;
  };
  const uuids = await Promise.all([listed("branches", "main"), listed("testbeds", "ci-runner"),
    listed("benchmarks", "fun_xdp_v3"), listed("measures", "latency")]);
  const [branch, testbed, benchmark, measure] = uuids;
  check(uuids.every(Boolean), `the API does not list all names: ${uuids}`);
  const query = `branches=${branch}&heads=&testbeds=${testbed}&benchmarks=${benchmark}&measures=${measure}&upper_boundary=true`;
  for (const path of [article, "/console/projects/fun-xdp/perf"]) {
    const { page, name, close } = await open(`${path}?${query}`);
    const url = decodeURIComponent(page.url().slice(base.length));
    check(url.endsWith("/plot?branch=main&testbed=ci-runner&benchmark=fun_xdp_v3&measure=latency"), `${name}: leads to ${url}`);
    check(await page.locator("figure").count() === 1, `${name}: shows ${await page.locator("figure").count()} charts`);
    await close();
  }
}

async function speed() {
  const { page, close } = await open(largeReport);
  const paint = await page.evaluate(async () => {
    const entry = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
    for (let count = 0; count < 100 && !entry(); count++) await new Promise((go) => setTimeout(go, 20));
    return entry();
  });
  console.log(`first paint of a report with 5,000 metrics: ${Math.round(paint)} ms`);
  await close();
}

for (const [name, path] of Object.entries(pages)) await lookAt(name, path, false);
for (const [name, path] of Object.entries(failures)) await lookAt(name, path, true);
await sign();
for (const [name, path] of Object.entries(own)) await lookAt(name, path, false);
await change();
const admin = signedIn;
signedIn = undefined;
await addresses();
await keyboard();
await zoom();
await chooser();
await together();
await phone();
await flame();
await timeline();
await around();
await sorting();
await withoutScript();
await speed();
signedIn = admin;
await settle();
await pins();
await rename();
await withdraw();
await browser.close();
console.log(`${looks} looks, ${faults.length} faults`);
for (const fault of faults) console.log(`  ${fault}`);
process.exit(faults.length ? 1 : 0);
