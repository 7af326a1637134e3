"use strict";
// The view of one column: depth, bars, and margins beside the axis.
const ranges = { canvas: $("ranges"), laid: [] };
const pad = (c) => (c.axis.kind === "rank" ? 0.5 : 0); // a rank is as wide as its cell
const windowOf = (c) => state.window ?? [c.axis.low, c.axis.high];
ranges.draw = () => {
  const c = data.columns[state.column], m = c.marks, [a, b] = windowOf(c), half = pad(c);
  const visible = [];
  let total = 0, drawn = 0;
  m.low.forEach((low, i) => {
    if (state.hidden.has(m.group[i])) return;
    drawn += m.count[i];
    if (low - half > b || m.high[i] + half < a) return;
    visible.push(i);
    total += m.count[i];
  });
  const onAxis = m.count.reduce((s, n) => s + n, 0);
  const plot = onAxis ? Math.min(380, Math.max(56, onAxis * 16)) : 28;
  const margins = c.margins.names.map((_, k) => k);
  const depthTop = 18, depthHeight = 72, top = depthTop + depthHeight + 22, bottom = top + plot;
  const axisY = bottom + 6, marginTop = axisY + 34;
  const [ctx, width] = prepare(ranges.canvas, marginTop + margins.length * 38);
  const x1 = LEFT, x2 = width - RIGHT;
  const X = (v) => (v > OPEN ? x2 : v < -OPEN ? x1 : Math.min(x2, Math.max(x1, x1 + ((v - a) / (b - a)) * (x2 - x1))));
  drawAxis(ctx, c.axis, a, b, x1, x2, axisY, depthTop);
  for (const [at, text] of c.literals) {
    if (at < a || at > b) continue;
    ctx.setLineDash([3, 3]);
    line(ctx, X(at), depthTop - 4, X(at), axisY, "--accent");
    ctx.setLineDash([]);
  }
  const deepest = drawDepth(ctx, c.depth, a, b, X, depthTop, depthHeight);
  write(ctx, "depth", LEFT - 10, depthTop + depthHeight - 6, "right");
  write(ctx, deepest.toLocaleString("en-US"), LEFT - 10, depthTop + 5, "right", "--text");
  line(ctx, x1, depthTop + depthHeight, x2, depthTop + depthHeight);
  // Bars: heights in proportion, and those that are read on top, at least two pixels high.
  ranges.laid = [];
  const unit = Math.min(16, plot / Math.max(1, total)), gap = unit >= 5 ? 2 : 0;
  let y = top;
  for (const i of visible) {
    ranges.laid.push({ i, y, h: unit * m.count[i] - gap, x1: X(m.low[i] - half), x2: X(m.high[i] + half), view: "marks" });
    y += unit * m.count[i];
  }
  // Few bars that are read stay visible among very many; many keep their proportion.
  const keptBars = ranges.laid.filter((bar) => isKept(m.group[bar.i])).length;
  const least = Math.min(2, Math.max(0.4, (0.08 * plot) / keptBars));
  for (const kept of [false, true]) {
    for (const bar of ranges.laid) {
      if (isKept(m.group[bar.i]) === kept) drawBar(ctx, m, bar, half, X, x1, x2, kept ? least : 0.4);
    }
  }
  write(ctx, total.toLocaleString("en-US"), LEFT - 10, top + 6, "right", "--text");
  write(ctx, total === 1 ? one : data.unit, LEFT - 10, top + 22, "right");
  if (!visible.length) write(ctx, onAxis ? "no ranges are shown here" : "no ranges", (x1 + x2) / 2, top + plot / 2, "center");
  margins.forEach((margin, k) => drawMargin(ctx, c, margin, x1, x2, marginTop + k * 38));
  const axisName = c.name + (c.axis.zoned ? " (UTC)" : c.axis.kind === "rank" ? " (in order, not to scale)" : "");
  ctx.font = "600 12px system-ui, -apple-system, 'Segoe UI', sans-serif";
  write(ctx, clip(ctx, axisName, x2 - x1), x1, 6, "left", "--text");
  ctx.font = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";
  if (c.literals.length && x2 - x1 > 500) write(ctx, "dashed: values of the condition", x2, 6, "right", "--accent");
  ranges.canvas.dataset.visible = String(total);
  ranges.canvas.dataset.drawn = String(drawn);
  ranges.canvas.dataset.window = a + " " + b;
  $("reset").hidden = state.window === null;
  const many = m.low.length < onAxis;
  $("ranges-title").textContent = "Ranges of " + c.name + " (" + c.type + ")";
  $("ranges-note").textContent = [
    onAxis === 0 ? "" : many ? m.low.length.toLocaleString("en-US") + " bars stand for " + count(onAxis) + "." : "One bar for each of " + count(onAxis) + ".",
    c.open ? count(c.open) + (c.open === 1 ? " has" : " have") + " an open end: a bound is unknown or infinite." : "",
    c.note,
  ].filter(Boolean).join(" ");
  ranges.canvas.setAttribute("aria-label", "Ranges of " + c.name + " in " + count(total) + ", at most " + deepest.toLocaleString("en-US") + " overlap");
  if (state.chosen >= 0) outline(ctx, ranges.laid[state.chosen]);
};
function drawBar(ctx, m, bar, half, X, x1, x2, least) {
  const i = bar.i, whole = bar.h >= 1.5; // on whole pixels, where bars are that high
  const y = whole ? Math.round(bar.y) : bar.y;
  const h = whole ? Math.max(1, Math.round(bar.y + bar.h) - y) : Math.max(least, bar.h);
  const [l1, l2] = [m.low[i], m.highest_low[i]].map((v) => X(v - half));
  const [h1, h2] = [m.lowest_high[i], m.high[i]].map((v) => X(v + half));
  ctx.fillStyle = colourOf(m.group[i]);
  const openLeft = m.low[i] < -OPEN, openRight = m.high[i] > OPEN;
  if (openLeft || openRight) {
    const fade = ctx.createLinearGradient(x1, 0, x2, 0), colour = ctx.fillStyle;
    fade.addColorStop(0, openLeft ? colour + "00" : colour);
    if (openLeft) fade.addColorStop(0.12, colour);
    if (openRight) fade.addColorStop(0.88, colour);
    fade.addColorStop(1, openRight ? colour + "00" : colour);
    ctx.fillStyle = fade;
  }
  if (m.count[i] === 1 || h < 3) {
    const width = Math.max(2, h2 - l1);
    ctx.fillRect(Math.min(l1, x2 - width), y, width, h);
    return;
  }
  // A bar of many leans from the first range to the last.
  ctx.beginPath();
  ctx.moveTo(l1, y);
  ctx.lineTo(Math.max(h1, l1 + 2), y);
  ctx.lineTo(Math.max(h2, l2 + 2), y + h);
  ctx.lineTo(l2, y + h);
  ctx.fill();
}
// Draw the depth, what is read at the bottom; return the greatest.
function drawDepth(ctx, depth, a, b, X, top, height) {
  const shown = [];
  let deepest = 0;
  depth.start.forEach((start, k) => {
    if (start > b || depth.end[k] < a) return;
    let sum = 0;
    depth.counts.forEach((n, g) => { if (!state.hidden.has(g)) sum += n[k]; });
    deepest = Math.max(deepest, sum);
    shown.push(k);
  });
  const order = [...drawOrder].reverse();
  for (const k of shown) {
    // Whole pixels, so that no seams show.
    const left = Math.floor(X(depth.start[k])), right = Math.max(Math.ceil(X(depth.end[k])), left + 1);
    let y = top + height;
    for (const g of order) {
      if (state.hidden.has(g) || !depth.counts[g][k]) continue;
      const h = (depth.counts[g][k] / deepest) * height;
      ctx.fillStyle = colourOf(g);
      ctx.fillRect(left, y - h, right - left, h);
      y -= h;
    }
  }
  return deepest;
}
function drawMargin(ctx, c, margin, x1, x2, y) {
  const l = c.margins, mine = l.margin.map((k, i) => (k === margin && !state.hidden.has(l.group[i]) ? i : -1)).filter((i) => i >= 0);
  const all = l.count.reduce((s, n, i) => s + (l.margin[i] === margin ? n : 0), 0);
  write(ctx, clip(ctx, count(all) + " with " + l.names[margin], x2 - x1), x1, y + 8);
  let x = x1;
  for (const i of mine) {
    const w = (l.count[i] / all) * (x2 - x1);
    ctx.fillStyle = colourOf(l.group[i]);
    ctx.fillRect(x, y + 18, Math.max(1, w - (w > 5 ? 1 : 0)), 12);
    ranges.laid.push({ i, y: y + 18, h: 12, x1: x, x2: x + w, view: "margins" });
    x += w;
  }
}
function outline(ctx, bar) {
  if (!bar) return;
  ctx.strokeStyle = colours["--accent"];
  ctx.lineWidth = 2;
  ctx.strokeRect(bar.x1 - 2, bar.y - 2, Math.max(2, bar.x2 - bar.x1) + 4, Math.max(2, bar.h) + 4);
}
ranges.tip = (bar) => {
  const c = data.columns[state.column], m = c[bar.view], i = bar.i, many = m.count[i] > 1;
  const lines = [];
  if (bar.view === "marks") {
    lines.push(c.name + (many ? " from " : " ") + m.from[i] + " to " + m.to[i]);
  } else {
    lines.push(c.name + ": " + c.margins.names[m.margin[i]]);
  }
  return describe(m, i, lines);
};
// What a tooltip says of a mark: title, lines, reason.
function describe(marks, i, lines) {
  const [path, group] = data.names[marks.first[i]] ?? [null, -1];
  const file = path === null ? "container " + marks.first[i] : data.paths[path];
  const named = file + (group >= 0 ? ", row group " + group : "");
  const many = (marks.count[i] ?? 1) > 1;
  return { title: many ? count(marks.count[i]) : named, lines: many ? [...lines, "the first: " + named] : lines, group: marks.group[i] };
}
