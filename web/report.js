// The page of a run or a sweep: reads the JSON that the program put into the page, draws it, and
// writes nothing anywhere. Values that are not finite are null there: lines break, nothing is filled in.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const outcomes = ["learned", "stalled", "diverged", "undecided", "failed"];
const width = 1000;

/** An element with attributes and children; strings become text, never markup. */
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

const cellColor = (index) => `var(--c${index % 8})`;
const fixed = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
const manyCells = data.cells.length > 8;
const runsOf = (cell) => data.runs.filter((run) => run.cell === cell);
const stackName = (stack) => (stack === "" ? "" : `${stack} `);

function section(id, title, ...children) {
  const node = element("section", { id }, element("h2", {}, title), ...children);
  document.querySelector("main").append(node);
  document.querySelector("nav").append(element("a", { href: `#${id}` }, title));
  return node;
}

function figure(chart, caption) {
  return element("figure", {}, chart, caption ? element("figcaption", {}, caption) : null);
}

/** Colours of cells, with their labels: one entry per cell, as all charts use them. */
function legend() {
  if (data.cells.length < 2) return null;
  return element("p", { class: "legend" }, data.cells.map((cell, index) =>
    element("span", { style: "margin-right:1.2rem;white-space:nowrap" },
      element("span", { class: "key", style: `background:${cellColor(index)}` }), cell.label)));
}

function plot(options) {
  const chart = Plot.plot({
    width, height: 360, marginLeft: 64, marginBottom: 44, marginRight: 24,
    style: { background: "transparent", fontSize: "13px", fontFamily: "inherit" },
    ...options,
  });
  chart.style.setProperty("--plot-background", "var(--ground)");
  return chart;
}

/** Radio buttons that redraw a chart on a linear or a logarithmic axis. */
function switched(name, start, draw) {
  const place = element("div");
  const show = (scale) => place.replaceChildren(draw(scale));
  const button = (scale, text) => {
    const input = element("input", { type: "radio", name, value: scale });
    input.checked = scale === start;
    input.addEventListener("change", () => show(scale));
    return element("label", {}, input, ` ${text}`);
  };
  show(start);
  return element("div", {},
    element("fieldset", { class: "switch" }, button("linear", "linear axis"), button("log", "logarithmic axis")),
    place);
}

function seriesOf(run, key) {
  return run.steps.map((step, i) => ({ step, value: run[key][i], run }));
}
const runLabel = (run) => (data.cells.length > 1 || data.runs.length > 1
  ? `${data.cells[run.cell].label}, seed ${run.seed}` : run.label);

/** One line per run; a gap where a value is not finite, and a cross at the top edge above it. */
function lines(key, scale, label, extraMarks = []) {
  const marks = [];
  for (const run of data.runs) {
    const series = seriesOf(run, key);
    const log = scale === "log";
    const value = (d) => (d.value === null || (log && d.value <= 0) ? NaN : d.value);
    marks.push(Plot.lineY(series, {
      x: "step", y: value, stroke: cellColor(run.cell), strokeWidth: 1.4, strokeOpacity: 0.85,
      ariaDescription: `${key} of ${runLabel(run)}`,
    }));
    const bad = series.filter((d) => d.value === null && d.step > 0);
    if (bad.length > 0 && key === "loss") {
      marks.push(Plot.text(bad.slice(0, 50), {
        x: "step", text: () => "✕", fill: cellColor(run.cell), frameAnchor: "top", dy: 8,
        title: (d) => `${runLabel(run)}: not finite at update ${d.step}`,
      }));
    }
  }
  const all = data.runs.flatMap((run) => seriesOf(run, key)).filter((d) => Number.isFinite(d.value));
  marks.push(Plot.tip(all, Plot.pointer({
    x: "step", y: "value", title: (d) => `${runLabel(d.run)}\nupdate ${d.step}: ${d.value.toPrecision(4)}`,
  })));
  return plot({
    x: { label: "update →", labelAnchor: "right" },
    y: { type: scale, label, grid: true, nice: scale === "linear", tickFormat: scale === "log" ? "~g" : undefined },
    marks: [Plot.frame({ stroke: "currentColor", strokeOpacity: 0.25 }), ...marks, ...extraMarks],
  });
}

function references() {
  const marks = [];
  const rule = (value, text) => {
    if (!Number.isFinite(value)) return;
    marks.push(Plot.ruleY([value], { stroke: "currentColor", strokeDasharray: "5 4", ariaDescription: text }));
    marks.push(Plot.text([value], {
      y: (d) => d, text: () => `${text} ${value.toFixed(3)}`, frameAnchor: "right", textAnchor: "end",
      dy: -8, dx: -6, fill: "currentColor", stroke: "var(--ground)", strokeWidth: 4,
    }));
  };
  rule(data.unigram, "unigram entropy");
  rule(data.bigram, "bigram entropy");
  return marks;
}

function evaluations() {
  const points = data.runs.flatMap((run) => run.evals.filter((e) => e[1] !== null)
    .map(([step, loss]) => ({ step, loss, run })));
  return Plot.dot(points, {
    x: "step", y: "loss", r: 4, fill: (d) => cellColor(d.run.cell), stroke: "var(--ground)", strokeWidth: 1.2,
    ariaDescription: "validation loss",
    title: (d) => `${runLabel(d.run)}\nvalidation loss after ${d.step} updates: ${d.loss.toFixed(4)}`,
  });
}

function smallMultiples(key, scale, label) {
  const grid = element("div", { style: "display:grid;grid-template-columns:repeat(auto-fill,minmax(18rem,1fr));gap:.6rem" });
  const values = data.runs.flatMap((run) => run[key]).filter((v) => v !== null && (scale === "linear" || v > 0));
  const domain = [Math.min(...values), Math.max(...values)];
  data.cells.forEach((cell, index) => {
    const chart = plot({
      width: 300, height: 190, marginLeft: 52, x: { label: "update →", ticks: 4 },
      y: { type: scale, domain, label, grid: true, ticks: 4 },
      marks: [Plot.frame({ stroke: "currentColor", strokeOpacity: 0.25 }),
        ...(key === "loss" && Number.isFinite(data.unigram)
          ? [Plot.ruleY([data.unigram], { stroke: "currentColor", strokeDasharray: "5 4" })] : []),
        ...runsOf(index).map((run) => Plot.lineY(seriesOf(run, key), {
          x: "step", y: (d) => (d.value === null ? NaN : d.value), stroke: cellColor(index), ariaDescription: `${key} of ${runLabel(run)}`,
        }))],
    });
    grid.append(element("div", {}, element("div", { class: "note" }, cell.label), chart));
  });
  return grid;
}

const curves = (key, scale, label, extra) =>
  manyCells ? smallMultiples(key, scale, label) : lines(key, scale, label, extra);

function lossSection() {
  if (data.runs.length === 0) {
    section("loss", "Loss", element("p", {}, "No run of this sweep has written anything yet."));
    return;
  }
  section("loss", "Loss",
    element("p", {}, "Training loss of every update and every seed; dots are losses on the validation part. "
      + "A model that only knows how often each token occurs has the unigram entropy; one that knows which token "
      + "follows which has the bigram entropy."),
    manyCells ? null : legend(),
    switched("loss-axis", "linear", (scale) => figure(
      curves("loss", scale, "↑ training loss (nat per token)", [...references(), evaluations()]),
      data.thinned > 1 ? `Every ${data.thinned}th update is drawn.` : null)));
}

function gradientSection() {
  const any = data.runs.some((run) => run.grad.some((value) => value !== null));
  if (!any) return;
  section("gradient", "Gradient norm",
    element("p", {}, "Norm of the whole gradient before clipping, at every update. A stalled run is usually not one "
      + "whose gradient explodes: it has one or a few large early updates and then a flat loss."),
    manyCells ? null : legend(),
    switched("gradient-axis", "log", (scale) => figure(
      curves("grad", scale, "↑ gradient norm (nat per unit of weight)"))));
}

/** Rows of one quantity by depth: of every run at its first and last measured update. */
function depthRows(value) {
  const rows = [];
  for (const run of data.runs) {
    const wanted = run.diags.length > 1 ? [run.diags[0], run.diags[run.diags.length - 1]] : run.diags;
    wanted.forEach((diag, which) => {
      const depth = {};
      for (const layer of diag.layers) depth[layer.stack] = Math.max(depth[layer.stack] ?? 0, layer.layer + 1);
      for (const layer of diag.layers) {
        const v = value(layer);
        rows.push({
          x: layer.layer < 0 ? depth[layer.stack] : layer.layer, y: v > 0 ? v : NaN, stack: layer.stack, run, step: diag.step,
          when: which === 0 ? "first measurement" : "last measurement",
        });
      }
    });
  }
  return rows;
}

function depthChart(value, label, name) {
  const rows = depthRows(value);
  const measured = [...new Set(rows.map((r) => r.when))];
  const groups = d3.group(rows, (r) => r.run, (r) => r.when, (r) => r.stack);
  const marks = [];
  for (const [run, byWhen] of groups) {
    for (const [when, byStack] of byWhen) {
      for (const [stack, points] of byStack) {
        const common = { x: "x", y: "y", fx: "when", stroke: cellColor(run.cell), strokeOpacity: 0.85 };
        if (stack === "encoder") common.strokeDasharray = "3 3";
        marks.push(Plot.lineY(points, { ...common, strokeWidth: 1.4, ariaDescription: `${name} of ${stackName(stack)}${runLabel(run)}, ${when}` }));
        marks.push(Plot.dot(points, { x: "x", y: "y", fx: "when", r: 2.2, fill: cellColor(run.cell),
          title: (d) => `${runLabel(run)}\n${stackName(stack)}update ${d.step}, depth ${d.x}: ${d.y.toPrecision(4)}` }));
      }
    }
  }
  return plot({
    height: 330, marginLeft: 76, marginTop: 26, fx: { label: null, domain: measured, padding: 0.08 },
    x: { label: "depth: layers before this point of the stream →", tickFormat: "d", interval: 1, ticks: 8 },
    y: { type: "log", label, labelAnchor: "center", labelArrow: "none", grid: true, ...logTicks(rows.map((r) => r.y)) },
    marks: [Plot.frame({ stroke: "currentColor", strokeOpacity: 0.25 }), ...marks],
  });
}

/** Ticks of a logarithmic axis: powers of ten where there are several, else what suits the range. */
function logTicks(values) {
  const finite = values.filter((v) => Number.isFinite(v) && v > 0);
  const [low, high] = [Math.ceil(Math.log10(d3.min(finite))), Math.floor(Math.log10(d3.max(finite)))];
  if (!(high - low >= 2)) return { ticks: 6, tickFormat: "~g" };
  return { ticks: d3.range(low, high + 1).map((e) => 10 ** e),
    tickFormat: (v) => (v >= 0.01 && v < 1e4 ? String(v) : v.toExponential(0)) };
}

/** Depth against time, one panel per cell (its first seed with measurements). */
function heatMaps() {
  const panels = [];
  data.cells.forEach((cell, index) => {
    const run = runsOf(index).find((r) => r.diags.length > 1);
    if (!run) return;
    const rows = run.diags.flatMap((diag) => diag.layers.filter((l) => l.stack !== "encoder" && l.layer >= 0)
      .map((l) => ({ step: diag.step, layer: l.layer, value: l.g > 0 ? Math.log10(l.g) : NaN })));
    panels.push({ cell, run, rows });
  });
  const values = panels.flatMap((p) => p.rows.map((r) => r.value)).filter(Number.isFinite);
  if (values.length === 0) return null;
  const scale = { type: "quantize", n: 7, scheme: "viridis", tickFormat: ".1f", domain: [Math.min(...values), Math.max(...values)],
    label: "log10 of the gradient norm at the stream" };
  const grid = element("div", { style: "display:grid;grid-template-columns:repeat(auto-fit,minmax(19rem,1fr));gap:.8rem" });
  for (const { cell, run, rows } of panels) {
    const chart = plot({
      width: 440, height: 90 + 15 * new Set(rows.map((r) => r.layer)).size, marginLeft: 44, color: scale,
      x: { type: "band", label: "update →", ticks: 6, tickFormat: "d",
        domain: [...new Set(rows.map((r) => r.step))], padding: 0 },
      y: { type: "band", label: "layer", reverse: true, padding: 0 },
      marks: [Plot.cell(rows, { x: "step", y: "layer", fill: "value", inset: 0, ariaDescription: `gradient by depth and update, ${runLabel(run)}`,
        title: (d) => `update ${d.step}, layer ${d.layer}: 10^${fixed(d.value, 2)}` })],
    });
    thinBandTicks(chart, rows);
    grid.append(element("div", {}, element("div", { class: "note" }, runLabel(run)), chart));
  }
  return element("div", {}, Plot.legend({ color: scale, width: 420, style: { fontSize: "12px" } }), grid);
}

/** A band axis labels every step; keep about six. */
function thinBandTicks(chart, rows) {
  const steps = [...new Set(rows.map((r) => r.step))].length;
  const every = Math.ceil(steps / 6);
  for (const name of ["x-axis tick label", "x-axis tick"]) {
    const group = chart.querySelector(`[aria-label="${name}"]`);
    if (!group) continue;
    [...group.children].forEach((child, i) => { if (i % every !== 0) child.remove(); });
  }
}

function depthSections() {
  const measured = data.runs.some((run) => run.diags.length > 0);
  if (!measured) {
    section("depth", "Through the depth", element("p", { class: "note" },
      "No diagnostics were recorded in these runs, so there is nothing to say about gradients and the stream by depth. "
      + "Train with --train.diag_every 20 to record them."));
    return;
  }
  section("depth", "Gradient by depth",
    element("p", {}, "Norm of the gradient of the loss at the residual stream, before each layer and after the last: "
      + "the first measurement is the one nearest to initialization. A line that falls to the left loses the gradient on its "
      + "way to the input; one that rises to the left gives early layers larger gradients."),
    manyCells ? null : legend(),
    figure(depthChart((l) => l.g, "gradient norm at the stream (nat per unit)", "gradient by depth")),
    element("h3", {}, "The same over training"), figure(heatMaps() ?? element("p", { class: "note" }, "Measured only once.")));
  section("stream", "Stream growth",
    element("p", {}, "Root mean square of the residual stream by depth. A norm on the stream holds it near the norm's gain; "
      + "a stream that no norm touches grows with every branch that is added to it."),
    manyCells ? null : legend(),
    figure(depthChart((l) => Math.sqrt(l.ms), "root mean square of the stream", "stream by depth")));
}

function outcomeTable() {
  const many = data.kind === "sweep";
  const head = element("tr", {}, data.columns.map((c) => element("th", {}, c)),
    element("th", { class: "number" }, "seeds"), outcomes.map((o) => element("th", {}, o)),
    element("th", { class: "number" }, "training loss"), element("th", { class: "number" }, "validation loss"));
  const rows = data.cells.map((cell, index) => element("tr", {},
    cell.values.map((value, i) => element("td", {},
      i === 0 && data.cells.length > 1 && !manyCells ? element("span", { class: "key", style: `background:${cellColor(index)}` }) : null,
      value, i === 0 && cell.extras ? element("div", { class: "note" }, cell.extras) : null)),
    element("td", { class: "number" }, `${cell.seeds.length}/${cell.planned}`),
    outcomes.map((o) => element("td", { class: cell.counts[o] > 0 ? `outcome ${o}` : "outcome none" },
      cell.counts[o] > 0 ? String(cell.counts[o]) : "·")),
    element("td", { class: "number" }, cell.train), element("td", { class: "number" }, cell.val)));
  section("outcomes", many ? "Outcomes" : "Outcome",
    data.shared ? element("p", { class: "note" }, `All cells: ${data.shared}.`) : null,
    element("div", { class: "scroll" }, element("table", { id: "outcome-table" }, element("thead", {}, head), element("tbody", {}, rows))),
    element("p", { class: "note" }, many ? "Entries count seeds. Losses are mean ± standard deviation over seeds, in nat per token; "
      + "the training loss is the mean of the last 20 updates." : "Losses are in nat per token; the training loss is the mean of the last 20 updates."),
    data.cells.filter((cell) => cell.advice).map((cell) => element("div", {},
      element("p", {}, element("strong", {}, `${cell.label}: `), cell.advice.text),
      element("pre", { class: "command" }, cell.advice.command))),
    many ? seedDetails() : null);
}

function seedDetails() {
  const rows = data.cells.flatMap((cell) => cell.seeds.map((seed) => element("tr", {},
    element("td", {}, cell.label), element("td", { class: "number" }, String(seed.seed)),
    element("td", { class: seed.outcome }, seed.outcome), element("td", { class: "number" }, fixed(seed.train)),
    element("td", { class: "number" }, fixed(seed.val)), element("td", { class: "number" }, String(seed.steps)),
    element("td", { class: "number" }, fixed(seed.seconds, 1)), element("td", {}, element("code", {}, seed.run)))));
  return element("details", {}, element("summary", {}, "Every seed"), element("div", { class: "scroll" },
    element("table", { id: "seed-table" }, element("thead", {}, element("tr", {}, ["cell", "seed", "outcome", "training loss", "validation loss",
      "updates", "seconds", "folder"].map((t) => element("th", {}, t)))), element("tbody", {}, rows))));
}

function wiringSection() {
  section("wirings", data.wirings.length > 1 ? "The wirings" : "The wiring",
    element("p", {}, "The formula is the program that ran: one statement per line, once per layer. "
      + "In the drawings the stream runs downwards."),
    data.wirings.map((wiring) => element("div", { class: "wiring" }, element("h3", {}, wiring.name || "a formula of your own"),
      element("pre", { class: "formula" }, wiring.formula), wiring.drawing ? element("pre", { class: "drawing" }, wiring.drawing) : null)));
}

function specificationSection() {
  section("specifications", data.specifications.length > 1 ? "Resolved specifications" : "Resolved specification",
    element("p", { class: "note" }, "Every value that was used, with where it came from."),
    data.specifications.map((spec) => element("details", {}, element("summary", {}, spec.title), element("pre", {}, spec.text))));
}

function howToRead() {
  const entries = [
    ["learned", "the training loss ended at least 0.3 nat below the unigram entropy"],
    ["stalled", "it ended near the unigram entropy or above and moved less than 0.1 nat in the second half: no crash, no NaN, just no learning"],
    ["diverged", "a number was not finite, or the loss ended more than 0.5 nat above the unigram entropy and higher than at a tenth of the run"],
    ["undecided", "none of these: more updates would tell"],
    ["failed", "the program itself did not finish, for instance for want of disk or memory"],
  ];
  section("reading", "How to read this page",
    element("dl", {}, entries.flatMap(([name, text]) => [element("dt", {}, element("span", { class: name, style: "padding:.1rem .5rem;border-radius:4px" }, name)),
      element("dd", {}, text)])),
    element("p", {}, "Losses are cross-entropies in nat per token; exp(loss) is the perplexity. Each thin line is one seed: the seed sets "
      + "the initial weights and the order of the data, so lines of one colour show how much is chance. A cross at the top edge marks an "
      + "update whose loss was not finite; lines have gaps there."),
    element("p", {}, "These are small models trained briefly. They show what a placement does to optimization at this size, "
      + "learning rate and text; they are no evidence about large models."));
}

function header() {
  document.title = data.name;
  const top = document.querySelector("header");
  top.append(element("div", { class: "kicker" }, `addnorm ${data.version} · ${data.kind} · ${data.name}`),
    element("h1", {}, data.question), element("p", { class: "answer" }, data.answer));
  for (const warning of data.warnings) top.append(element("p", { class: "warning" }, warning));
  top.append(element("nav", {}));
}

header();
outcomeTable();
lossSection();
gradientSection();
depthSections();
wiringSection();
howToRead();
specificationSection();
const notes = data.runs.flatMap((run) => run.notes.map((note) => ({ run, note })));
if (notes.length > 0) {
  section("notes", "Notes of the runs", element("ul", {}, notes.slice(0, 200).map(({ run, note }) =>
    element("li", {}, `${runLabel(run)}, update ${note.step}: ${note.text}`))));
}
