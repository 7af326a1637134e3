"use strict";
// The view of two columns: rectangles, or a grid that counts them.
const boxes = { canvas: $("boxes"), laid: [] };
boxes.draw = () => {
  const m = data.boxes, cx = data.columns[0], cy = data.columns[1];
  const [ctx, width] = prepare(boxes.canvas, 460);
  const x1 = 110, x2 = width - RIGHT, y1 = 12, y2 = 420;
  // The window of the ranges zooms this picture, too.
  const part = (k, c) => (state.column === k ? windowOf(c) : [c.axis.low, c.axis.high]);
  const [ax, bx] = part(0, cx), [ay, by] = part(1, cy);
  const clamp = (v, lo, hi) => Math.min(hi, Math.max(lo, v));
  const X = (v) => (v > OPEN ? x2 : v < -OPEN ? x1 : clamp(x1 + ((v - ax) / (bx - ax)) * (x2 - x1), x1, x2));
  const Y = (v) => (v > OPEN ? y1 : v < -OPEN ? y2 : clamp(y2 - ((v - ay) / (by - ay)) * (y2 - y1), y1, y2));
  let free = Infinity;
  for (const [at, text] of ticksOf(cy.axis, ay, by, 7)) {
    const y = Y(at);
    if (y > free) continue;
    free = y - 18;
    line(ctx, x1, y, x2, y);
    write(ctx, clip(ctx, text, x1 - 16), x1 - 8, y, "right");
  }
  drawAxis(ctx, cx.axis, ax, bx, x1, x2, y2, y1);
  line(ctx, x1, y1, x1, y2, "--faint");
  boxes.laid = [];
  if (m.cover) drawCover(ctx, m.cover, cx.axis, cy.axis, X, Y);
  else drawBoxes(ctx, m, cx, cy, [ax, bx, ay, by], X, Y);
  line(ctx, x1, y1, x1, y2, "--faint");
  line(ctx, x1, y2, x2, y2, "--faint");
  ctx.setLineDash([3, 3]);
  for (const [at] of cx.literals) if (at >= ax && at <= bx) line(ctx, X(at), y1, X(at), y2, "--accent");
  for (const [at] of cy.literals) if (at >= ay && at <= by) line(ctx, x1, Y(at), x2, Y(at), "--accent");
  ctx.setLineDash([]);
  write(ctx, cx.name, x2, y2 + 34, "right", "--text");
  ctx.save();
  ctx.translate(12, (y1 + y2) / 2);
  ctx.rotate(-Math.PI / 2);
  write(ctx, cy.name, 0, 0, "center", "--text");
  ctx.restore();
  $("boxes-title").textContent = cy.name + " against " + cx.name;
  $("boxes-note").textContent =
    (m.cover ? "The stronger a cell's colour, the more of " + count(m.count) + " may hold a row there." : "One rectangle for each of " + count(m.count) + ".") +
    (m.missing ? " " + count(m.missing) + " without values or bounds in both columns " + (m.missing === 1 ? "is" : "are") + " not drawn." : "");
  boxes.canvas.setAttribute("aria-label", cy.name + " against " + cx.name);
};
function drawBoxes(ctx, m, cx, cy, [ax, bx, ay, by], X, Y) {
  for (const g of drawOrder) {
    if (state.hidden.has(g)) continue;
    m.x_low.forEach((low, i) => {
      const [xa, xb, ya, yb] = [low - pad(cx), m.x_high[i] + pad(cx), m.y_low[i] - pad(cy), m.y_high[i] + pad(cy)];
      if (m.group[i] !== g || xa > bx || xb < ax || ya > by || yb < ay) return;
      const left = X(xa), right = Math.max(X(xb), left + 2);
      const up = Y(yb), down = Math.max(Y(ya), up + 2);
      ctx.fillStyle = ctx.strokeStyle = colourOf(g);
      ctx.lineWidth = 1;
      ctx.globalAlpha = isKept(g) ? 0.22 : 0.16;
      ctx.fillRect(left, up, right - left, down - up);
      ctx.globalAlpha = isKept(g) ? 0.95 : 0.75;
      ctx.strokeRect(left + 0.5, up + 0.5, Math.max(1, right - left - 1), Math.max(1, down - up - 1));
      boxes.laid.push({ i, x1: left, x2: right, y: up, h: down - up });
    });
  }
  ctx.globalAlpha = 1;
}
// Cells of a grid: what is pruned below, what is read above, each by its share of the most.
function drawCover(ctx, cover, ax, ay, X, Y) {
  const layers = [false, true].map((kept) => drawOrder.filter((g) => isKept(g) === kept && !state.hidden.has(g)));
  const sum = (groups, k) => groups.reduce((s, g) => s + cover.counts[g][k], 0);
  const most = layers.map((groups) => cover.counts[0].reduce((best, _, k) => Math.max(best, sum(groups, k)), 0));
  const wide = (ax.high - ax.low) / cover.across, tall = (ay.high - ay.low) / cover.up;
  cover.counts[0].forEach((_, k) => {
    const column = k % cover.across, row = Math.floor(k / cover.across);
    const left = Math.floor(X(ax.low + column * wide)), right = Math.floor(X(ax.low + (column + 1) * wide));
    const up = Math.floor(Y(ay.low + (row + 1) * tall)), down = Math.floor(Y(ay.low + row * tall));
    if (right <= left || down <= up) return;
    layers.forEach((groups, kept) => {
      const n = sum(groups, k);
      if (!n) return;
      ctx.fillStyle = colourOf(groups.reduce((best, g) => (cover.counts[g][k] > cover.counts[best][k] ? g : best)));
      ctx.globalAlpha = (kept ? 0.2 : 0.08) + (kept ? 0.75 : 0.72) * Math.sqrt(n / most[kept]);
      ctx.fillRect(left, up, right - left, down - up);
    });
    boxes.laid.push({ i: k, x1: left, x2: right, y: up, h: down - up });
  });
  ctx.globalAlpha = 1;
}
boxes.tip = (box) => {
  const m = data.boxes, i = box.i, [cx, cy] = data.columns;
  if (m.cover) {
    const counts = m.cover.counts.map((of) => of[i]);
    const total = counts.reduce((s, n) => s + n, 0);
    return { title: count(total) + " may hold a row here", group: null, lines: counts.map((n, g) => (n ? n.toLocaleString("en-US") + " " + reason(g) : "")).filter(Boolean) };
  }
  return describe(m, i, [cx.name + " " + m.x_from[i] + " to " + m.x_to[i], cy.name + " " + m.y_from[i] + " to " + m.y_to[i]]);
};
