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
  const below = y + 18, above = Math.max(8, y - tip.offsetHeight - 12);
  const fits = below + tip.offsetHeight <= innerHeight;
  const left = Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8));
  tip.style.left = `${left}px`;
  tip.style.top = `${fits ? below : above}px`;
}
// Return whether what a bar or a rectangle stands for is read; cells of a grid hold both.
function isRead(view, bar) {
  if (view === ranges) return isKept(data.columns[state.column][bar.view].group[bar.i]);
  if (view === boxes && data.boxes.group) return isKept(data.boxes.group[bar.i]);
  return false;
}
// Of bars that share a pixel, return one that is read; of rectangles, the smallest.
function hit(view, x, y) {
  let best = null;
  for (const bar of view.laid) {
    const slack = Math.max(0, 2 - bar.h / 2);
    if (x < bar.x1 - 2 || x > bar.x2 + 2) continue;
    if (y < bar.y - slack || y > bar.y + bar.h + slack) continue;
    const read = isRead(view, bar), area = (bar.x2 - bar.x1) * bar.h;
    const better = !best || (read === best.read ? area < best.area : read);
    if (better) best = { bar, read, area };
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
  const left = Math.min(drag.from, drag.to), right = Math.max(drag.from, drag.to);
  ctx.fillRect(left, 0, right - left, ranges.canvas.clientHeight);
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
const reset = () => {
  state.window = null;
  state.chosen = -1;
  zoomed();
};
const leave = () => {
  state.chosen = -1;
  showTip(null);
  ranges.draw();
};
ranges.canvas.addEventListener("dblclick", reset);
$("reset").addEventListener("click", reset);
ranges.canvas.addEventListener("keydown", (event) => {
  const [a, b] = windowOf(data.columns[state.column]), shift = (b - a) / 8;
  const actions = {
    "+": () => zoomBy(0.6),
    "=": () => zoomBy(0.6),
    "-": () => zoomBy(1 / 0.6),
    "0": reset,
    Home: reset,
    ArrowLeft: () => zoomTo(a - shift, b - shift),
    ArrowRight: () => zoomTo(a + shift, b + shift),
    ArrowDown: () => choose(1),
    ArrowUp: () => choose(-1),
    Escape: leave,
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
ranges.canvas.addEventListener("blur", leave);

function button(text, pressed, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-pressed", String(pressed));
  made.addEventListener("click", act);
  return made;
}
function colourButton(by) {
  return button(`Colour by ${by}`, state.by === by, () => {
    state.by = by;
    redraw();
  });
}
function columnButton(c, k) {
  return button(c.name, state.column === k, () => {
    state.column = k;
    state.window = null;
    redraw();
  });
}
// A button of the legend: it hides and shows some groups.
function legendButton([text, groups]) {
  const shown = !groups.every((g) => state.hidden.has(g));
  const made = button("", shown, () => {
    for (const g of groups) shown ? state.hidden.add(g) : state.hidden.delete(g);
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
  part("swatch", "").style.background = colourOf(groups[0]);
  const sql = state.by === "conjunct" && data.groups[groups[0]].conjunct !== null;
  part(sql ? "name sql" : "name", text);
  const total = groups.reduce((s, g) => s + data.groups[g].count, 0);
  part("count", `${grouped(total)} · ${share(total)}`);
  return made;
}
function drawControls() {
  const choices = conjunctGroups.length ? ["verdict", "conjunct"] : [];
  $("colours").replaceChildren(...choices.map(colourButton));
  const columns = data.columns.length > 1 ? data.columns : [];
  $("columns").replaceChildren(...columns.map(columnButton));
  const byDecision = DECISIONS.map(
    ([decision, text]) => [text, groupsWhere((g) => g.decision === decision)],
  );
  const byGroup = data.groups.map((g, i) => [g.text, [i]]);
  const entries = state.by === "verdict" ? byDecision : byGroup;
  const some = entries.filter(([, groups]) => groups.length);
  $("legend").replaceChildren(...some.map(legendButton));
}
function share(n) {
  const percent = (100 * n) / data.n;
  if (percent === 100) return "100 %";
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${percent.toFixed(percent < 99.95 ? 1 : 2)} %`;
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
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  redraw();
});
// For tests: the bars as they lie on the canvas.
window.skipstoneMap = { state, ranges, boxes, strip, data };
