// Asks the daemon once a second and shows the answers; says when there is none, and goes on when it comes back.
import {element} from './chart.js';
import {SamplerPanel, SessionPanels, SlowestPanel, WholePanel} from './panels.js';
import {Recent} from './recent.js';
import * as words from './words.js';

const kRanges = [60, 300, 900];
const kPauseMs = 1000;
const kPatienceMs = 5000;

const store = new Recent();
const panels = [new WholePanel(), new SessionPanels(), new SlowestPanel(), new SamplerPanel()];
const state = document.getElementById('state');
let range = kRanges[1];
let snapshot = null;
let answered_at = null;
let version = null;

class NoAnswer extends Error {}

// Relative, so that the page also works behind a proxy's folder.
async function ask(path) {
  const failed = (why) => { throw new NoAnswer(why); };
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(kPatienceMs)})
    .catch(() => failed('it does not answer'));
  const text = await answer.text().catch(() => failed('it fell silent in the middle of an answer'));
  return answer.ok ? JSON.parse(text) : failed(text.trim());
}

function say(text, is_wrong) {
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle('wrong', is_wrong);
  document.body.classList.toggle('stale', is_wrong && answered_at !== null);
}

const kServing = {
  ready: ['ready', false],
  starting: ['not every sampler runs', true],
  draining: ['draining: no new steps', true],
};

function show() {
  if (!snapshot) return;
  const pictures = store.pictures(range);
  for (const panel of panels) panel.show(snapshot, store, pictures);
  document.getElementById('instance').textContent = snapshot.instance;
  const tokens = document.querySelector('[data-fact=tokens_per_second]').textContent;
  document.title = `${tokens} tokens/s – Croupier ${snapshot.instance}`;
}

async function refresh() {
  const recent = await ask(`recent.json?after=${store.last_number}`);
  // A daemon that was upgraded has another page.
  if (version !== null && version !== recent.version) return location.reload();
  version = recent.version;
  if (!store.take(recent)) store.take(await ask('recent.json'));
  snapshot = await ask('snapshot.json');
  answered_at = new Date();
  say(...kServing[recent.serving]);
  show();
}

function say_failure(failure) {
  const since = answered_at ? `; what you see is of ${answered_at.toLocaleTimeString()}` : '';
  const what = failure instanceof NoAnswer ? 'the daemon is gone' : 'the page cannot show the answer';
  say(`${what}: ${failure.message}${since}`, true);
  document.title = 'GONE – Croupier';
}

async function watch() {
  // A page that nobody sees asks nothing; the daemon keeps the seconds for it.
  if (document.hidden && answered_at) return;
  try {
    await refresh();
  } catch (failure) {
    say_failure(failure);
  }
}

for (const seconds of kRanges) {
  const button = element('button', {type: 'button', 'aria-pressed': seconds === range}, words.duration(seconds));
  button.addEventListener('click', () => {
    range = seconds;
    for (const each of document.querySelectorAll('#ranges button')) each.ariaPressed = each === button;
    show();
  });
  document.getElementById('ranges').append(button);
}
window.addEventListener('resize', show);

for (;;) {
  await watch();
  await new Promise((resume) => { setTimeout(resume, kPauseMs); });
}
