"use strict";
(() => {
  const data = JSON.parse(document.getElementById("picture").textContent);
  const $ = (id) => document.getElementById(id);
  const OPEN = 1e300; // positions beyond it are open ends
  const LEFT = 84, RIGHT = 14;
  const FATES = [
    ["pruned", "pruned"], ["limit", "left out: the limit is reached"],
    ["filter", "read, rows are filtered"], ["whole", data.where === null ? "read" : "read, every row matches"],
  ];
  const FATE_COLOURS = { pruned: "--never", limit: "--limit", filter: "--maybe", whole: "--always" };
  const state = { column: 0, by: "verdict", hidden: new Set(), window: null, chosen: -1 };
  const one = data.unit.replace(/s$/, "");
  const count = (n) => n.toLocaleString("en-US") + " " + (n === 1 ? one : data.unit);
  const conjunctGroups = data.groups.map((g, i) => (g.conjunct === null ? -1 : i)).filter((i) => i >= 0);

  let colours = {};
  function readColours() {
    const style = getComputedStyle(document.body);
    colours = new Proxy({}, { get: (known, name) => (known[name] ??= style.getPropertyValue(name).trim()) });
  }
  function colourOf(group) {
    const g = data.groups[group];
    if (state.by === "conjunct" && g.conjunct !== null) return colours["--c" + (conjunctGroups.indexOf(group) % 8)];
    return colours[FATE_COLOURS[g.fate]];
  }
  const isKept = (group) => ["filter", "whole"].includes(data.groups[group].fate);
  // Pruned marks lie below those that are read.
  const drawOrder = data.groups.map((_, i) => i).sort((a, b) => isKept(a) - isKept(b) || a - b);

  // ---- canvas -----------------------------------------------------------------------------
  function prepare(canvas, height) {
    const width = Math.max(320, canvas.clientWidth || canvas.parentElement.clientWidth);
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";
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

  // ---- the ranges -------------------------------------------------------------------------
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
    const lanes = c.lanes.names.map((_, k) => k);
    const depthTop = 18, depthHeight = 72, top = depthTop + depthHeight + 22, bottom = top + plot;
    const axisY = bottom + 6, laneTop = axisY + 34;
    const [ctx, width] = prepare(ranges.canvas, laneTop + lanes.length * 38);
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
    lanes.forEach((lane, k) => drawLane(ctx, c, lane, x1, x2, laneTop + k * 38));
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
  function drawLane(ctx, c, lane, x1, x2, y) {
    const l = c.lanes, mine = l.lane.map((k, i) => (k === lane && !state.hidden.has(l.group[i]) ? i : -1)).filter((i) => i >= 0);
    const all = l.count.reduce((s, n, i) => s + (l.lane[i] === lane ? n : 0), 0);
    write(ctx, clip(ctx, count(all) + " with " + l.names[lane], x2 - x1), x1, y + 8);
    let x = x1;
    for (const i of mine) {
      const w = (l.count[i] / all) * (x2 - x1);
      ctx.fillStyle = colourOf(l.group[i]);
      ctx.fillRect(x, y + 18, Math.max(1, w - (w > 5 ? 1 : 0)), 12);
      ranges.laid.push({ i, y: y + 18, h: 12, x1: x, x2: x + w, view: "lanes" });
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
      lines.push(c.name + ": " + c.lanes.names[m.lane[i]]);
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

  // ---- two columns ------------------------------------------------------------------------
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
        ctx.globalAlpha = isKept(g) ? 0.22 : 0.13;
        ctx.fillRect(left, up, right - left, down - up);
        ctx.globalAlpha = isKept(g) ? 0.95 : 0.6;
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

  // ---- the strip --------------------------------------------------------------------------
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

  // ---- tooltips and events ----------------------------------------------------------------
  function showTip(found, x, y) {
    const tip = $("tip");
    tip.hidden = found === null;
    if (found === null) return;
    tip.replaceChildren();
    const add = (text, name) => {
      const div = document.createElement("div");
      div.className = name;
      div.textContent = text;
      tip.append(div);
      return div;
    };
    add(found.title, "title");
    found.lines.forEach((text) => add(text, "line"));
    if (found.group !== null) {
      const why = add("", "why"), swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = colourOf(found.group);
      why.append(swatch, reason(found.group));
    }
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (y + 18 + tip.offsetHeight > innerHeight ? Math.max(8, y - tip.offsetHeight - 12) : y + 18) + "px";
  }
  function hit(view, x, y) {
    let best = null;
    for (const bar of view.laid) {
      const slack = Math.max(0, 2 - bar.h / 2);
      if (x < bar.x1 - 2 || x > bar.x2 + 2 || y < bar.y - slack || y > bar.y + bar.h + slack) continue;
      // Of bars that share a pixel, one that is read; of rectangles, the smallest.
      const own = data.columns[state.column], group = view === boxes ? (data.boxes.group?.[bar.i] ?? 0) : view === ranges ? own[bar.view].group[bar.i] : 0;
      const rank = [view !== strip && isKept(group) ? 0 : 1, (bar.x2 - bar.x1) * bar.h];
      if (!best || rank[0] < best.rank[0] || (rank[0] === best.rank[0] && rank[1] < best.rank[1])) best = { bar, rank };
    }
    return best && best.bar;
  }
  const at = (event, canvas) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let drag = null;
  for (const view of [ranges, boxes, strip]) {
    view.canvas.addEventListener("pointermove", (event) => {
      if (drag) return dragging(event);
      const found = hit(view, ...at(event, view.canvas));
      showTip(found && view.tip(found), event.clientX, event.clientY);
    });
    view.canvas.addEventListener("pointerleave", () => showTip(null));
  }
  function zoomTo(a, b) {
    const { low, high } = data.columns[state.column].axis, whole = high - low;
    const span = Math.min(whole, Math.max(b - a, whole * 1e-7));
    a = Math.min(Math.max(a, low), high - span);
    state.window = span >= whole * 0.999 ? null : [a, a + span];
    state.chosen = -1;
    zoomed();
  }
  function zoomed() {
    ranges.draw();
    if (data.boxes) boxes.draw();
  }
  const position = (x) => {
    const [a, b] = windowOf(data.columns[state.column]);
    const width = ranges.canvas.clientWidth - LEFT - RIGHT;
    return a + (b - a) * Math.min(1, Math.max(0, (x - LEFT) / width));
  };
  function zoomBy(factor, middle) {
    const [a, b] = windowOf(data.columns[state.column]);
    const m = middle ?? (a + b) / 2;
    zoomTo(m - (m - a) * factor, m + (b - m) * factor);
  }
  ranges.canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    showTip(null);
    zoomBy(event.deltaY < 0 ? 0.8 : 1.25, position(at(event, ranges.canvas)[0]));
  }, { passive: false });
  ranges.canvas.addEventListener("pointerdown", (event) => {
    drag = { from: at(event, ranges.canvas)[0], to: null };
    ranges.canvas.setPointerCapture(event.pointerId);
  });
  function dragging(event) {
    drag.to = at(event, ranges.canvas)[0];
    showTip(null);
    ranges.draw();
    const ctx = ranges.canvas.getContext("2d");
    ctx.globalAlpha = 0.15;
    ctx.fillStyle = colours["--accent"];
    ctx.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), ranges.canvas.clientHeight);
    ctx.globalAlpha = 1;
  }
  ranges.canvas.addEventListener("pointerup", () => {
    const done = drag;
    drag = null;
    if (!done || done.to === null) return;
    const [a, b] = [position(done.from), position(done.to)].sort((p, q) => p - q);
    if (Math.abs(done.to - done.from) > 4) zoomTo(a, b);
    else ranges.draw();
  });
  const reset = () => { state.window = null; state.chosen = -1; zoomed(); };
  ranges.canvas.addEventListener("dblclick", reset);
  $("reset").addEventListener("click", reset);
  ranges.canvas.addEventListener("keydown", (event) => {
    const [a, b] = windowOf(data.columns[state.column]), shift = (b - a) / 8;
    const actions = {
      "+": () => zoomBy(0.6), "=": () => zoomBy(0.6), "-": () => zoomBy(1 / 0.6), "0": reset, Home: reset,
      ArrowLeft: () => zoomTo(a - shift, b - shift), ArrowRight: () => zoomTo(a + shift, b + shift),
      ArrowDown: () => choose(1), ArrowUp: () => choose(-1),
      Escape: () => { state.chosen = -1; showTip(null); ranges.draw(); },
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
  function choose(step) {
    const n = ranges.laid.length;
    if (!n) return;
    state.chosen = Math.min(n - 1, Math.max(0, state.chosen + step));
    ranges.draw();
    const bar = ranges.laid[state.chosen], box = ranges.canvas.getBoundingClientRect();
    showTip(ranges.tip(bar), box.left + (bar.x1 + bar.x2) / 2, box.top + bar.y + bar.h);
  }
  ranges.canvas.addEventListener("blur", () => { state.chosen = -1; showTip(null); ranges.draw(); });

  // ---- buttons ----------------------------------------------------------------------------
  function button(text, pressed, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-pressed", String(pressed));
    made.addEventListener("click", act);
    return made;
  }
  function drawControls() {
    const choices = conjunctGroups.length ? ["verdict", "conjunct"] : [];
    $("colours").replaceChildren(...choices.map((by) => button("Colour by " + by, state.by === by, () => {
      state.by = by;
      redraw();
    })));
    const columns = data.columns.length > 1 ? data.columns : [];
    $("columns").replaceChildren(...columns.map((c, k) => button(c.name, state.column === k, () => {
      state.column = k;
      state.window = null;
      redraw();
    })));
    const byFate = FATES.map(([fate, text]) => [text, data.groups.map((g, i) => (g.fate === fate ? i : -1)).filter((i) => i >= 0)]);
    const byGroup = data.groups.map((g, i) => [g.text, [i]]);
    $("legend").replaceChildren(...(state.by === "verdict" ? byFate : byGroup).filter(([, of]) => of.length).map(([text, of]) => {
      const shown = !of.every((g) => state.hidden.has(g));
      const made = button("", shown, () => {
        for (const g of of) shown ? state.hidden.add(g) : state.hidden.delete(g);
        state.chosen = -1;
        redraw();
      });
      const part = (name, content) => {
        const span = document.createElement("span");
        span.className = name;
        span.textContent = content;
        made.append(span);
        return span;
      };
      part("swatch", "").style.background = colourOf(of[0]);
      const sql = state.by === "conjunct" && data.groups[of[0]].conjunct !== null;
      part("name" + (sql ? " sql" : ""), text);
      const total = of.reduce((s, g) => s + data.groups[g].count, 0);
      part("count", total.toLocaleString("en-US") + " · " + share(total));
      return made;
    }));
  }
  function share(n) {
    const percent = (100 * n) / data.n;
    return percent > 0 && percent < 0.1 ? "< 0.1 %" : percent.toFixed(percent < 99.95 || percent === 100 ? (percent === 100 ? 0 : 1) : 2) + " %";
  }
  function redraw() {
    const focused = [...document.querySelectorAll("button")].indexOf(document.activeElement);
    readColours();
    drawControls();
    if (focused >= 0) [...document.querySelectorAll("button")][focused]?.focus();
    ranges.draw();
    if (data.boxes) boxes.draw();
    if (data.strip.rows.length) strip.draw();
  }
  $("boxes-view").hidden = !data.boxes;
  $("strip-view").hidden = !data.strip.rows.length;
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  // For tests: the bars as they lie on the canvas.
  window.skipstoneMap = { state, ranges, boxes, strip, data };
})();
