"use strict";
// The view of conjuncts by containers.
const strip = { canvas: $("strip"), laid: [] };
const LEAST = 2; // pixels of a cell for containers that are read
strip.draw = () => {
  const s = data.strip, n = s.start.length;
  const rows = s.rows.length + 1, rowHeight = 26, cellHeight = rowHeight - 8;
  const wide = Math.min(420, Math.max(200, strip.canvas.parentElement.clientWidth * 0.34));
  const [ctx, width] = prepare(strip.canvas, rows * rowHeight + 46);
  const x1 = wide, x2 = width - RIGHT, step = (x2 - x1) / Math.max(1, n);
  strip.laid = [];
  const cell = (k, y, parts) => {
    const from = x1 + k * step, to = x1 + (k + 1) * step;
    const left = Math.floor(from), cellWidth = step > 4 ? step - 1 : Math.ceil(to) - left;
    // Parts of a cell lie one above the other, in proportion; none that is read is too low to see.
    const heights = parts.map(
      ([share, , read]) => Math.max(share * cellHeight, read && share > 0 ? LEAST : 0),
    );
    const excess = heights.reduce((a, b) => a + b) - cellHeight;
    if (excess > 0) heights[heights.indexOf(Math.max(...heights))] -= excess;
    let at = y;
    parts.forEach(([, colour], p) => {
      ctx.fillStyle = colour;
      ctx.fillRect(left, at, cellWidth, heights[p]);
      at += heights[p];
    });
  };
  // Draw a row. Cells overlap where they are narrow; those with parts that are read lie above.
  const drawRow = (row, y, partsOf) => {
    const cells = Array.from({ length: n }, (_, k) => [k, partsOf(k)]);
    const isRead = ([, parts]) => parts.some(([share, , read]) => read && share > 0);
    for (const [k, parts] of cells.filter((c) => !isRead(c))) cell(k, y, parts);
    for (const [k, parts] of cells.filter(isRead)) cell(k, y, parts);
    for (const [k] of cells) {
      strip.laid.push({ k, x1: x1 + k * step, x2: x1 + (k + 1) * step, y, h: cellHeight, row });
    }
  };
  s.rows.forEach((row, r) => {
    const group = conjunctGroups.find((g) => data.groups[g].conjunct === r);
    const own = state.by === "conjunct" && group !== undefined;
    const never = own ? colourOf(group) : colours["--never"];
    ctx.font = MONO;
    write(ctx, clip(ctx, row.text, wide - 24), 0, r * rowHeight + 13, "left", "--text");
    drawRow(r, r * rowHeight + 4, (k) => {
      const all = stripSize(k);
      return [
        [row.always[k] / all, colours["--always"], true],
        [(all - row.always[k] - row.never[k]) / all, colours["--maybe"], true],
        [row.never[k] / all, never, false],
      ];
    });
  });
  ctx.font = BOLD;
  const y = (rows - 1) * rowHeight + 8;
  write(ctx, "together", 0, y + 9, "left", "--text");
  ctx.font = FONT;
  const order = [...drawOrder].reverse();
  const shareOf = (g, k) => (state.hidden.has(g) ? 0 : s.whole[g][k] / stripSize(k));
  drawRow(rows - 1, y, (k) => order.map((g) => [shareOf(g, k), colourOf(g), isKept(g)]));
  const foot = rows * rowHeight + 22;
  write(ctx, "first " + one, x1, foot);
  write(ctx, "last", x2, foot, "right");
  $("strip-note").textContent = stripNote(s);
  strip.canvas.setAttribute("aria-label", `What each of ${s.rows.length} conjuncts rules out`);
};
// How many containers a cell stands for.
function stripSize(k) {
  const start = data.strip.start;
  return (start[k + 1] ?? data.n) - start[k];
}
function stripNote(s) {
  const cells = s.start.length;
  const notes = [
    `${state.by === "conjunct" ? "Its own colour" : "Grey"}: the conjunct rules the ${one} out`,
    "by itself. Orange: some rows may match. Green: every row matches.",
  ];
  if (cells < data.n) {
    notes.push(`Each cell stands for up to ${count(Math.ceil(data.n / cells))}, in table order.`);
  } else {
    notes.push(`From left to right, ${count(data.n)} in table order.`);
  }
  if (s.hidden) notes.push(`${grouped(s.hidden)} more conjuncts are not shown.`);
  return notes.join(" ");
}
strip.tip = (cell) => {
  const s = data.strip, k = cell.k, all = stripSize(k), from = grouped(s.start[k]);
  const title = all === 1 ? `${one} ${from} of the table` : `${count(all)} from number ${from} on`;
  if (cell.row === s.rows.length) {
    return { title, lines: reasons(s.whole.map((counts) => counts[k])), group: null };
  }
  const row = s.rows[cell.row], never = row.never[k], always = row.always[k];
  const parts = [
    `${grouped(never)} ruled out`,
    `${grouped(all - never - always)} may match`,
    `${grouped(always)} match whole`,
  ];
  return { title, lines: [row.text, parts.join(", ")], group: null };
};
const reason = (group) => {
  const g = data.groups[group];
  return g.decision === "pruned" ? `pruned by ${g.text}` : g.text;
};
// A line for each group of which there are any.
function reasons(counts) {
  const some = [...counts.keys()].filter((g) => counts[g]);
  return some.map((g) => `${grouped(counts[g])} ${reason(g)}`);
}
