"use strict";
// Tooltips, mouse, keys and buttons.
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
