"use strict";
// The view of one column: depth, bars, and margins beside the axis.
const ranges = { canvas: $("ranges"), laid: [] };
const pad = (c) => (c.axis.kind === "rank" ? 0.5 : 0); // a rank is as wide as its cell
const windowOf = (c) => state.window ?? [c.axis.low, c.axis.high];
ranges.draw = () => {
  const c = data.columns[state.column], m = c.marks;
  const [a, b] = windowOf(c), half = pad(c);
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
  const X = scale(a, b, x1, x2);
  drawAxis(ctx, c.axis, a, b, x1, x2, axisY, depthTop);
  for (const [at] of c.literals) {
    if (at < a || at > b) continue;
    ctx.setLineDash([3, 3]);
    line(ctx, X(at), depthTop - 4, X(at), axisY, "--accent");
    ctx.setLineDash([]);
  }
  const deepest = drawDepth(ctx, c.depth, a, b, X, depthTop, depthHeight);
  write(ctx, "depth", LEFT - 10, depthTop + depthHeight - 6, "right");
  write(ctx, grouped(deepest), LEFT - 10, depthTop + 5, "right", "--text");
  line(ctx, x1, depthTop + depthHeight, x2, depthTop + depthHeight);
  // Bars: heights in proportion, and those that are read on top, at least two pixels high.
  ranges.laid = [];
  const unit = Math.min(16, plot / Math.max(1, total)), gap = unit >= 5 ? 2 : 0;
  let y = top;
  for (const i of visible) {
    const height = unit * m.count[i];
    const left = X(m.low[i] - half), right = X(m.high[i] + half);
    ranges.laid.push({ i, y, h: height - gap, x1: left, x2: right, view: "marks" });
    y += height;
  }
  // Few bars that are read stay visible among very many; many keep their proportion.
  const keptBars = ranges.laid.filter((bar) => isKept(m.group[bar.i])).length;
  const least = Math.min(2, Math.max(0.4, (0.08 * plot) / keptBars));
  for (const kept of [false, true]) {
    const thinnest = kept ? least : 0.4;
    for (const bar of ranges.laid) {
      if (isKept(m.group[bar.i]) === kept) drawBar(ctx, m, bar, half, X, x1, x2, thinnest);
    }
  }
  write(ctx, grouped(total), LEFT - 10, top + 6, "right", "--text");
  write(ctx, unitOf(total), LEFT - 10, top + 22, "right");
  if (!visible.length) {
    const empty = onAxis ? "no ranges are shown here" : "no ranges";
    write(ctx, empty, (x1 + x2) / 2, top + plot / 2, "center");
  }
  margins.forEach((margin, k) => drawMargin(ctx, c, margin, x1, x2, marginTop + k * 38));
  ctx.font = BOLD;
  write(ctx, clip(ctx, axisTitle(c), x2 - x1), x1, 6, "left", "--text");
  ctx.font = FONT;
  if (c.literals.length && x2 - x1 > 500) {
    write(ctx, "dashed: values of the condition", x2, 6, "right", "--accent");
  }
  ranges.canvas.dataset.visible = String(total);
  ranges.canvas.dataset.drawn = String(drawn);
  ranges.canvas.dataset.window = a + " " + b;
  $("reset").hidden = state.window === null;
  $("ranges-title").textContent = `Ranges of ${c.name} (${c.type})`;
  $("ranges-note").textContent = rangesNote(c, onAxis);
  const overlap = `at most ${grouped(deepest)} overlap`;
  ranges.canvas.setAttribute("aria-label", `Ranges of ${c.name} in ${count(total)}, ${overlap}`);
  if (state.chosen >= 0) outline(ctx, ranges.laid[state.chosen]);
};
function axisTitle(c) {
  if (c.axis.zoned) return c.name + " (UTC)";
  if (c.axis.kind === "rank") return c.name + " (in order, not to scale)";
  return c.name;
}
function rangesNote(c, onAxis) {
  const bars = c.marks.low.length, notes = [];
  if (bars < onAxis) notes.push(`${grouped(bars)} bars stand for ${count(onAxis)}.`);
  else if (onAxis) notes.push(`One bar for each of ${count(onAxis)}.`);
  if (c.open) {
    const have = c.open === 1 ? "has" : "have";
    notes.push(`${count(c.open)} ${have} an open end: a bound is unknown or infinite.`);
  }
  if (c.note) notes.push(c.note);
  return notes.join(" ");
}
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
    depth.counts.forEach((n, g) => {
      if (!state.hidden.has(g)) sum += n[k];
    });
    deepest = Math.max(deepest, sum);
    shown.push(k);
  });
  const order = [...drawOrder].reverse();
  for (const k of shown) {
    // Whole pixels, so that no seams show.
    const left = Math.floor(X(depth.start[k]));
    const right = Math.max(Math.ceil(X(depth.end[k])), left + 1);
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
  const l = c.margins;
  const mine = [...l.margin.keys()].filter((i) => l.margin[i] === margin);
  const all = mine.reduce((s, i) => s + l.count[i], 0);
  write(ctx, clip(ctx, `${count(all)} with ${l.names[margin]}`, x2 - x1), x1, y + 8);
  let x = x1;
  for (const i of mine) {
    if (state.hidden.has(l.group[i])) continue;
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
  const c = data.columns[state.column], m = c[bar.view], i = bar.i;
  if (bar.view === "margins") return describe(m, i, [`${c.name}: ${m.names[m.margin[i]]}`]);
  const from = m.count[i] > 1 ? `from ${m.from[i]}` : m.from[i];
  return describe(m, i, [`${c.name} ${from} to ${m.to[i]}`]);
};
// What a tooltip says of a mark: title, lines, reason.
function describe(marks, i, lines) {
  const [path, group] = data.names[marks.first[i]] ?? [null, -1];
  const file = path === null ? `container ${marks.first[i]}` : data.paths[path];
  const named = group >= 0 ? `${file}, row group ${group}` : file;
  const n = marks.count[i] ?? 1, of = marks.group[i];
  if (n === 1) return { title: named, lines, group: of };
  return { title: count(n), lines: [...lines, `the first: ${named}`], group: of };
}
