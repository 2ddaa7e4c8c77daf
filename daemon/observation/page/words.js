// Numbers as people read them. Whatever is missing reads as a dash.
const plain = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const three = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});
const dash = '–';

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

export const count = (value) => (known(value) ? plain.format(value) : dash);

export function rate(value) {
  if (!known(value)) return dash;
  if (value >= 999_500) return `${three.format(value / 1e6)} M`;
  if (value >= 9_999.5) return `${three.format(value / 1e3)} k`;
  return value >= 100 ? plain.format(value) : three.format(value);
}

export function duration(seconds) {
  if (!known(seconds)) return dash;
  if (seconds === 0) return '0';
  if (seconds < 999.5e-6) return `${three.format(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${three.format(seconds * 1e3)} ms`;
  if (seconds < 119.5) return `${three.format(seconds)} s`;
  if (seconds < 7200) return `${plain.format(seconds / 60)} min`;
  return seconds < 172800 ? `${three.format(seconds / 3600)} h` : `${plain.format(seconds / 86400)} days`;
}

export const share = (value) => (known(value) ? `${three.format(value * 100)} %` : dash);

export function bytes(value) {
  if (!known(value)) return dash;
  if (value < 2 ** 20) return `${three.format(value / 2 ** 10)} KiB`;
  return value < 2 ** 30 ? `${three.format(value / 2 ** 20)} MiB` : `${three.format(value / 2 ** 30)} GiB`;
}
