"use strict";
// What all views share: the data, the state, colours, and canvas helpers.
const data = JSON.parse(document.getElementById("picture").textContent);
const $ = (id) => document.getElementById(id);
const OPEN = 1e300; // positions beyond it are open ends
const LEFT = 84, RIGHT = 14;
const DECISIONS = [
  ["pruned", "pruned"],
  ["limit", "left out: the limit is reached"],
  ["filter", "read, rows are filtered"],
  ["whole", data.where === null ? "read" : "read, every row matches"],
];
const DECISION_COLOURS = {
  pruned: "--never", limit: "--limit", filter: "--maybe", whole: "--always",
};
const FONT = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";
const BOLD = "600 " + FONT;
const MONO = "12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const state = { column: 0, by: "verdict", hidden: new Set(), window: null, chosen: -1 };
const one = data.unit.replace(/s$/, "");
const grouped = (n) => n.toLocaleString("en-US"); // 12345 becomes 12,345
const unitOf = (n) => (n === 1 ? one : data.unit);
const count = (n) => `${grouped(n)} ${unitOf(n)}`;
const groupsWhere = (test) => [...data.groups.keys()].filter((i) => test(data.groups[i]));
const conjunctGroups = groupsWhere((g) => g.conjunct !== null);

let colours = {};
function readColours() {
  const style = getComputedStyle(document.body);
  const get = (known, name) => (known[name] ??= style.getPropertyValue(name).trim());
  colours = new Proxy({}, { get });
}
function colourOf(group) {
  const g = data.groups[group];
  if (state.by === "conjunct" && g.conjunct !== null) {
    return colours["--c" + (conjunctGroups.indexOf(group) % 8)];
  }
  return colours[DECISION_COLOURS[g.decision]];
}
const isKept = (group) => ["filter", "whole"].includes(data.groups[group].decision);
// Pruned marks lie below those that are read.
const drawOrder = data.groups.map((_, i) => i).sort((a, b) => isKept(a) - isKept(b) || a - b);

// Return the function from values a..b to pixels p..q; what lies outside goes to the ends.
function scale(a, b, p, q) {
  const low = Math.min(p, q), high = Math.max(p, q);
  return (v) => {
    if (v > OPEN) return q;
    if (v < -OPEN) return p;
    return Math.min(high, Math.max(low, p + ((v - a) / (b - a)) * (q - p)));
  };
}
function prepare(canvas, height) {
  const width = Math.max(320, canvas.clientWidth || canvas.parentElement.clientWidth);
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  return [ctx, width];
}
function write(ctx, text, x, y, align = "left", colour = "--faint") {
  ctx.fillStyle = colours[colour];
  ctx.textAlign = align;
  ctx.fillText(text, x, y);
}
function clip(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  while (text.length > 1 && ctx.measureText(text + "…").width > width) text = text.slice(0, -1);
  return text + "…";
}
function line(ctx, x1, y1, x2, y2, colour = "--line") {
  ctx.strokeStyle = colours[colour];
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  ctx.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
  ctx.stroke();
}
// An axis along the bottom from x1 to x2; grid lines go up to `top`.
function drawAxis(ctx, axis, a, b, x1, x2, y, top) {
  const most = Math.max(2, Math.floor((x2 - x1) / 96));
  let free = -Infinity;
  for (const [at, text] of ticksOf(axis, a, b, most)) {
    const x = x1 + ((at - a) / (b - a)) * (x2 - x1);
    const shown = clip(ctx, text, 150), half = ctx.measureText(shown).width / 2;
    const middle = Math.min(Math.max(x, x1 - LEFT + half + 2), x2 + RIGHT - half - 2);
    if (middle - half < free) continue;
    free = middle + half + 14;
    line(ctx, x, top, x, y + 4);
    write(ctx, shown, middle, y + 15, "center");
  }
  line(ctx, x1, y, x2, y, "--faint");
}
