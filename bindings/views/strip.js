"use strict";
// The view of conjuncts by containers.
const strip = { canvas: $("strip"), laid: [] };
strip.draw = () => {
  const s = data.strip, n = s.start.length, rowHeight = 26;
  const rows = s.rows.length + 1;
  const wide = Math.min(420, Math.max(200, strip.canvas.parentElement.clientWidth * 0.34));
  const [ctx, width] = prepare(strip.canvas, rows * rowHeight + 46);
  const x1 = wide, x2 = width - RIGHT, step = (x2 - x1) / Math.max(1, n);
  const size = (k) => (k + 1 < n ? s.start[k + 1] : data.n) - s.start[k];
  strip.laid = [];
  const cell = (k, y, parts) => {
    // Parts of a cell lie one above the other, in proportion.
    let at = y;
    for (const [share, colour] of parts) {
      ctx.fillStyle = colour;
      const left = Math.floor(x1 + k * step);
      ctx.fillRect(left, at, step > 4 ? step - 1 : Math.ceil(x1 + (k + 1) * step) - left, share * (rowHeight - 8));
      at += share * (rowHeight - 8);
    }
    strip.laid.push({ k, x1: x1 + k * step, x2: x1 + (k + 1) * step, y, h: rowHeight - 8, row: Math.round((y - 4) / rowHeight) });
  };
  s.rows.forEach((row, r) => {
    const mono = "12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    ctx.font = mono;
    write(ctx, clip(ctx, row.text, wide - 24), 0, r * rowHeight + 13, "left", "--text");
    for (let k = 0; k < n; k++) {
      const all = size(k), group = conjunctGroups.find((g) => data.groups[g].conjunct === r);
      const never = state.by === "conjunct" && group !== undefined ? colourOf(group) : colours["--never"];
      cell(k, r * rowHeight + 4, [
        [row.always[k] / all, colours["--always"]],
        [1 - (row.always[k] + row.never[k]) / all, colours["--maybe"]],
        [row.never[k] / all, never],
      ]);
    }
  });
  ctx.font = "600 12px system-ui, -apple-system, 'Segoe UI', sans-serif";
  const y = (rows - 1) * rowHeight + 8;
  write(ctx, "together", 0, y + 9, "left", "--text");
  ctx.font = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";
  for (let k = 0; k < n; k++) {
    const order = [...drawOrder].reverse();
    cell(k, y, order.map((g) => [state.hidden.has(g) ? 0 : s.whole[g][k] / size(k), colourOf(g)]));
  }
  const foot = rows * rowHeight + 22;
  write(ctx, "first " + one, x1, foot);
  write(ctx, "last", x2, foot, "right");
  $("strip-note").textContent =
    (state.by === "conjunct" ? "Its own colour" : "Grey") + ": the conjunct rules the " + one + " out by itself. Orange: some rows may match. Green: every row matches." +
    (n < data.n ? " Each cell stands for up to " + count(Math.ceil(data.n / n)) + ", in table order." : " From left to right, " + count(data.n) + " in table order.") +
    (s.hidden ? " " + s.hidden.toLocaleString("en-US") + " more conjuncts are not shown." : "");
  strip.canvas.setAttribute("aria-label", "What each of " + s.rows.length + " conjuncts rules out");
};
strip.tip = (cell) => {
  const s = data.strip, k = cell.k, all = (k + 1 < s.start.length ? s.start[k + 1] : data.n) - s.start[k];
  const title = all === 1 ? one + " " + s.start[k].toLocaleString("en-US") + " of the table" : count(all) + " from number " + s.start[k].toLocaleString("en-US") + " on";
  if (cell.row < s.rows.length) {
    const row = s.rows[cell.row], maybe = all - row.never[k] - row.always[k];
    return { title, lines: [row.text, row.never[k].toLocaleString("en-US") + " ruled out, " + maybe.toLocaleString("en-US") + " may match, " + row.always[k].toLocaleString("en-US") + " match whole"], group: null };
  }
  return { title, lines: data.groups.map((g, i) => (s.whole[i][k] ? s.whole[i][k].toLocaleString("en-US") + " " + reason(i) : "")).filter(Boolean), group: null };
};
const reason = (group) => {
  const g = data.groups[group];
  return g.fate === "pruned" ? "pruned by " + g.text : g.text;
};
