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
  const X = scale(ax, bx, x1, x2);
  const Y = scale(ay, by, y2, y1);
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
  for (const [at] of cx.literals) {
    if (at >= ax && at <= bx) line(ctx, X(at), y1, X(at), y2, "--accent");
  }
  for (const [at] of cy.literals) {
    if (at >= ay && at <= by) line(ctx, x1, Y(at), x2, Y(at), "--accent");
  }
  ctx.setLineDash([]);
  write(ctx, cx.name, x2, y2 + 34, "right", "--text");
  ctx.save();
  ctx.translate(12, (y1 + y2) / 2);
  ctx.rotate(-Math.PI / 2);
  write(ctx, cy.name, 0, 0, "center", "--text");
  ctx.restore();
  const title = `${cy.name} against ${cx.name}`;
  $("boxes-title").textContent = title;
  $("boxes-note").textContent = boxesNote(m);
  boxes.canvas.setAttribute("aria-label", title);
};
function boxesNote(m) {
  const drawn = m.cover
    ? `The stronger a cell's colour, the more of ${count(m.count)} may hold a row there.`
    : `One rectangle for each of ${count(m.count)}.`;
  if (!m.missing) return drawn;
  const are = m.missing === 1 ? "is" : "are";
  return `${drawn} ${count(m.missing)} without values or bounds in both columns ${are} not drawn.`;
}
function drawBoxes(ctx, m, cx, cy, [ax, bx, ay, by], X, Y) {
  for (const g of drawOrder) {
    if (state.hidden.has(g)) continue;
    m.x_low.forEach((low, i) => {
      const xa = low - pad(cx), xb = m.x_high[i] + pad(cx);
      const ya = m.y_low[i] - pad(cy), yb = m.y_high[i] + pad(cy);
      if (m.group[i] !== g || xa > bx || xb < ax || ya > by || yb < ay) return;
      const left = X(xa), right = Math.max(X(xb), left + 2);
      const up = Y(yb), down = Math.max(Y(ya), up + 2);
      ctx.fillStyle = ctx.strokeStyle = colourOf(g);
      ctx.lineWidth = 1;
      ctx.globalAlpha = isKept(g) ? 0.22 : 0.16;
      ctx.fillRect(left, up, right - left, down - up);
      ctx.globalAlpha = isKept(g) ? 0.95 : 0.75;
      const across = Math.max(1, right - left - 1), along = Math.max(1, down - up - 1);
      ctx.strokeRect(left + 0.5, up + 0.5, across, along);
      boxes.laid.push({ i, x1: left, x2: right, y: up, h: down - up });
    });
  }
  ctx.globalAlpha = 1;
}
// Cells of a grid: what is pruned below, what is read above, each by its share of the most.
function drawCover(ctx, cover, ax, ay, X, Y) {
  const seen = drawOrder.filter((g) => !state.hidden.has(g));
  const layers = [false, true].map((kept) => seen.filter((g) => isKept(g) === kept));
  const sum = (groups, k) => groups.reduce((s, g) => s + cover.counts[g][k], 0);
  const cells = [...cover.counts[0].keys()];
  const mostOf = (groups) => cells.reduce((best, k) => Math.max(best, sum(groups, k)), 0);
  const most = layers.map(mostOf);
  const wide = (ax.high - ax.low) / cover.across, tall = (ay.high - ay.low) / cover.up;
  const across = (column) => Math.floor(X(ax.low + column * wide));
  const along = (row) => Math.floor(Y(ay.low + row * tall));
  cells.forEach((k) => {
    const column = k % cover.across, row = Math.floor(k / cover.across);
    const left = across(column), right = across(column + 1);
    const up = along(row + 1), down = along(row);
    if (right <= left || down <= up) return;
    layers.forEach((groups, kept) => {
      const n = sum(groups, k);
      if (!n) return;
      const larger = (best, g) => (cover.counts[g][k] > cover.counts[best][k] ? g : best);
      ctx.fillStyle = colourOf(groups.reduce(larger));
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
    return { title: `${count(total)} may hold a row here`, group: null, lines: reasons(counts) };
  }
  const x = `${cx.name} ${m.x_from[i]} to ${m.x_to[i]}`;
  const y = `${cy.name} ${m.y_from[i]} to ${m.y_to[i]}`;
  return describe(m, i, [x, y]);
};
