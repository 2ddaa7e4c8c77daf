// A picture of values over time: lines, or areas on top of each other, with a legend that tells the values
// under the pointer and a table of the same numbers.
import * as words from './words.js';

const kHeight = 136;
const kLeft = 50;
const kRight = 8;
const kTop = 8;
const kBottom = 18;
const kTableRows = 15;

// Text goes in as text, never as markup: names are other processes' bytes.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The least of 1, 2, 5, 10, ... that is not below.
function round_up(value) {
  if (value <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * unit).find((bound) => bound >= value * 0.9999);
}

// Where on the axis a value stands, from 0 to 1, and at which values it has its marks.
function linear(values) {
  const top = round_up(Math.max(0, ...values));
  return {marks: [0, top / 2, top], place: (value) => value / top};
}

// For values of which some are a thousand times others. Decades, and of many every second or third.
export function logarithmic(values) {
  const exponents = values.filter((value) => value > 0).map(Math.log10);
  if (exponents.length === 0) return linear(values);
  const lowest = Math.floor(Math.min(...exponents));
  const highest = Math.max(Math.ceil(Math.max(...exponents)), lowest + 1);
  const step = Math.ceil((highest - lowest) / 3);
  const marks = [];
  for (let exponent = lowest; exponent <= highest; exponent += step) marks.push(10 ** exponent);
  const place = (value) => Math.max(0, (Math.log10(value) - lowest) / (highest - lowest));
  return {marks, place};
}

// From-to pairs of the stretches in which every value is known.
function stretches(values) {
  const found = [];
  let from = -1;
  for (let i = 0; i <= values.length; ++i) {
    const known = i < values.length && values[i] !== null;
    if (known && from < 0) from = i;
    if (!known && from >= 0) {
      found.push([from, i - 1]);
      from = -1;
    }
  }
  return found;
}

export class Chart {
  // `series` are names; `format` shows a value of theirs.
  constructor({title, series, format, stacked = false, scale = linear}) {
    this.title = title;
    this.series = series;
    this.format = format;
    this.stacked = stacked;
    this.scale = scale;
    this.svg = drawn('svg', {class: 'chart', role: 'img'});
    this.shown_values = series.map(() => element('b'));
    const legend = element('ul', {class: 'legend'});
    series.forEach((name, i) => {
      const label = series.length > 1 ? `${name} ` : '';
      legend.append(element('li', {}, element('span', {class: `swatch tone-${i}`}), label, this.shown_values[i]));
    });
    this.table = element('table');
    this.details = element('details', {}, element('summary', {}, 'As a table'), this.table);
    this.details.addEventListener('toggle', () => this.draw_table());
    this.figure = element('figure', {}, element('figcaption', {}, title), this.svg, legend, this.details);
    this.pointed_at = null;
    for (const kind of ['pointermove', 'pointerleave']) {
      this.svg.addEventListener(kind, (event) => {
        this.pointed_at = kind === 'pointermove' ? event.clientX : null;
        this.point();
      });
    }
    this.show([], series.map(() => []), 60);
  }

  // `ages`: how many seconds ago each point is, the oldest first; `columns`: of each series its values at
  // those times, null where there is none; `range`: of how many seconds the picture is.
  show(ages, columns, range) {
    Object.assign(this, {ages, columns, range});
    this.draw();
    this.draw_table();
  }

  // What the values of a point are drawn at: stacked ones stand on those before them.
  tops() {
    if (!this.stacked) return this.columns;
    const below = this.ages.map(() => 0);
    return this.columns.map((values) => values.map((value, i) => {
      if (value === null) return null;
      below[i] += value;
      return below[i];
    }));
  }

  draw() {
    this.width = Math.max(this.svg.clientWidth, 180);
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${kHeight}`);
    const tops = this.tops();
    const values = tops.flat().filter((value) => value !== null);
    const {marks, place} = this.scale(values);
    const x = (age) => kLeft + (1 - age / this.range) * (this.width - kLeft - kRight);
    const y = (value) => kTop + (1 - place(value)) * (kHeight - kTop - kBottom);
    const parts = marks.flatMap((value) => [
      drawn('line', {class: 'grid', x1: kLeft, x2: this.width - kRight, y1: y(value), y2: y(value)}),
      drawn('text', {x: kLeft - 6, y: y(value) + 4, 'text-anchor': 'end'}, this.format(value)),
    ]);
    parts.push(drawn('text', {x: kLeft, y: kHeight - 4}, `${words.duration(this.range)} ago`));
    parts.push(drawn('text', {x: this.width - kRight, y: kHeight - 4, 'text-anchor': 'end'}, 'now'));
    tops.forEach((values, i) => {
      for (const [from, to] of stretches(values)) parts.push(this.shape(tops, i, from, to, x, y));
    });
    this.pointer = drawn('line', {class: 'pointer', y1: kTop, y2: kHeight - kBottom, visibility: 'hidden'});
    this.svg.replaceChildren(...parts, this.pointer);
    this.place_x = x;
    this.tell_values(this.ages.length - 1);
    const now = this.series.map((name, i) => `${name} ${this.shown_values[i].textContent}`).join(', ');
    const most = `at most ${this.format(Math.max(0, ...values))} in the last ${words.duration(this.range)}`;
    this.svg.setAttribute('aria-label', `${this.title}: now ${now}; ${most}`);
    this.point();
  }

  shape(tops, i, from, to, x, y) {
    const points = [];
    for (let at = from; at <= to; ++at) points.push(`${x(this.ages[at]).toFixed(1)},${y(tops[i][at]).toFixed(1)}`);
    if (from === to) points.push(`${(x(this.ages[from]) + 1.5).toFixed(1)},${y(tops[i][from]).toFixed(1)}`);
    if (!this.stacked) return drawn('path', {class: `line tone-${i}`, d: `M${points.join('L')}`});
    for (let at = to; at >= from; --at) {
      const under = i === 0 ? 0 : tops[i - 1][at] ?? 0;
      points.push(`${x(this.ages[at]).toFixed(1)},${y(under).toFixed(1)}`);
    }
    return drawn('path', {class: `area tone-${i}`, d: `M${points.join('L')}Z`});
  }

  tell_values(index) {
    this.series.forEach((_, i) => {
      this.shown_values[i].textContent = this.format(this.columns[i][index] ?? null);
    });
  }

  // At the pointer, where there is one: it stays there while new seconds come.
  point() {
    const last = this.ages.length - 1;
    const pointing = this.pointed_at !== null && last >= 0;
    this.pointer.setAttribute('visibility', pointing ? 'visible' : 'hidden');
    if (!pointing) return this.tell_values(last);
    const at = this.pointed_at - this.svg.getBoundingClientRect().left;
    const distances = this.ages.map((age) => Math.abs(this.place_x(age) - at));
    const nearest = distances.indexOf(Math.min(...distances));
    for (const end of ['x1', 'x2']) this.pointer.setAttribute(end, this.place_x(this.ages[nearest]));
    this.tell_values(nearest);
  }

  draw_table() {
    if (!this.details.open) return;
    const heads = ['Ago', ...this.series].map((name) => element('th', {scope: 'col'}, name));
    const every = Math.max(1, Math.ceil(this.ages.length / kTableRows));
    const rows = [];
    for (let i = this.ages.length - 1; i >= 0; i -= every) {
      const values = this.columns.map((values) => element('td', {}, this.format(values[i])));
      rows.push(element('tr', {}, element('td', {}, words.duration(Math.round(this.ages[i]))), ...values));
    }
    this.table.replaceChildren(element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows));
  }
}
