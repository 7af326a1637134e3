"use strict";
// Ticks and labels of an axis. Positions are those of views/axis.py.
const DAY = 86400000;
const TIME_STEPS = [
  1, 10, 100, 1000, 5000, 15000, 30000, 60000, 300000, 900000, 1800000, 3600000, 10800000, 21600000,
  43200000, DAY, 2 * DAY, 7 * DAY,
];

function niceStep(span, most) {
  const raw = span / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw * 0.999);
}

// Return [[position, text], ...] for the part of an axis from a to b, at most `most` of them.
function ticksOf(axis, a, b, most) {
  if (axis.kind === "rank") return rankTicks(axis, a, b);
  if (axis.kind === "number") return numberTicks(axis, a, b, most);
  if (axis.kind === "clock") {
    return evenly(a, b, timeStep((b - a) / most) || DAY, (v) => clock(v, b - a));
  }
  return timeTicks(a, b, most);
}

function evenly(a, b, step, text) {
  const out = [];
  for (let k = Math.ceil(a / step); k * step <= b && out.length < 200; k++) {
    out.push([k * step, text(k * step || 0)]); // not -0
  }
  return out;
}

function numberTicks(axis, a, b, most) {
  const step = niceStep(b - a, most);
  return evenly(a, b, step, (v) => numberText(axis, v, step));
}

function numberText(axis, value, step) {
  if (axis.base) return (BigInt(axis.base) + BigInt(Math.round(value))).toLocaleString("en-US");
  const size = Math.max(Math.abs(value), step);
  if (value !== 0 && (size >= 1e15 || size < 1e-5)) {
    return value.toPrecision(4).replace(/\.?0+e/, "e");
  }
  const digits = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

function rankTicks(axis, a, b) {
  const out = [];
  axis.at.forEach((at, i) => {
    if (at >= a && at <= b) out.push([at, axis.labels[i]]);
  });
  return out;
}

function timeStep(least) {
  return TIME_STEPS.find((step) => step >= least);
}

function timeTicks(a, b, most) {
  if (Math.max(Math.abs(a), Math.abs(b)) > 8.6e15) {
    // JavaScript's dates end here; these years are Gregorian on average.
    const year = 31556952000;
    const step = niceStep((b - a) / year, most);
    const years = evenly(a / year, b / year, step, (v) => v);
    return years.map(([v]) => [v * year, `year ${Math.round(1970 + v)}`]);
  }
  const least = (b - a) / most;
  if (least < 1) return momentTicks(a, b, niceStep(b - a, most));
  const step = timeStep(least);
  if (step && step < 7 * DAY) return evenly(a, b, step, (v) => dateText(v, step));
  const months = [1, 3, 6].find((m) => m * 30 * DAY >= least);
  if (months) return calendar(a, b, months, (d) => d.toISOString().slice(0, 7));
  const years = Math.max(1, niceStep((b - a) / (365 * DAY), most));
  return calendar(a, b, 12 * years, (d) => String(d.getUTCFullYear()));
}

// Ticks within milliseconds: seconds with as many digits as the step needs.
function momentTicks(a, b, step) {
  const digits = Math.min(9, Math.ceil(3 - Math.log10(step) - 1e-9));
  return evenly(a, b, step, (v) => {
    const minute = Math.floor(v / 60000) * 60000;
    const seconds = ((v - minute) / 1000).toFixed(digits);
    return new Date(minute).toISOString().slice(11, 17) + seconds.padStart(digits + 3, "0");
  });
}

// Return ticks at the starts of every few months.
function calendar(a, b, months, text) {
  const first = new Date(a);
  const out = [];
  let at = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
  for (; out.length < 200; at += months) {
    const date = new Date(0);
    date.setUTCFullYear(Math.floor(at / 12), at - 12 * Math.floor(at / 12), 1);
    if (!(date.getTime() <= b)) break;
    if (date.getTime() >= a) out.push([date.getTime(), text(date)]);
  }
  return out;
}

function dateText(value, step) {
  const iso = new Date(value).toISOString();
  if (step >= DAY) return iso.slice(0, iso.indexOf("T"));
  const at = iso.indexOf("T");
  const length = step >= 60000 ? 5 : step >= 1000 ? 8 : 12; // minutes, seconds or milliseconds
  const time = iso.slice(at + 1, at + 1 + length);
  return time === "00:00" ? iso.slice(0, at) : iso.slice(at - 5, at) + " " + time;
}

function clock(value, span) {
  const text = new Date(value).toISOString().slice(11, 23);
  return text.slice(0, span > 120000 ? 5 : span > 2000 ? 8 : 12);
}
