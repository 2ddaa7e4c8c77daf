// The parts of the page. Each is made once and then shows what it is given, so that what a reader has opened
// or points at stays.
import {Chart, element, logarithmic} from './chart.js';
import * as recent from './recent.js';
import * as words from './words.js';

// More sessions than these are shown closed.
const kSessionsOpened = 6;
// A rank that lacks its logits for so long is called late; below it, it may be computing.
const kLateRankSeconds = 1;

// A list of terms of which each has a value that changes.
class Facts {
  constructor(list, terms) {
    this.values = new Map(terms.map(([key, term]) => {
      const value = element('dd', {'data-fact': key});
      list.append(element('div', {}, element('dt', {}, term), value));
      return [key, value];
    }));
  }

  // Without a text the term is hidden: it says nothing here.
  show(key, text, is_bad = false) {
    const value = this.values.get(key);
    value.parentElement.hidden = text === null;
    value.textContent = text ?? '';
    value.classList.toggle('bad', is_bad);
  }
}

export class WholePanel {
  constructor() {
    this.facts = new Facts(document.getElementById('tiles'), [
      ['tokens_per_second', 'Tokens a second'],
      ['steps_per_second', 'Steps a second'],
      ['sessions', 'Sessions'],
      ['sequences', 'Live sequences'],
      ['samplers', 'Samplers alive'],
      ['busy', 'Samplers’ time spent deciding'],
      ['up', 'Uptime'],
    ]);
    const quantiles = ['p50', 'p90', 'p99'];
    const chart = (title) => new Chart({title, series: quantiles, format: words.duration, scale: logarithmic});
    this.charts = new Map([
      ['step', chart('From logits complete to a step’s last commit')],
      ['decide', chart('Deciding one column')],
      ['claim_wait', chart('A column waits for a sampler')],
    ]);
    for (const each of this.charts.values()) document.getElementById('whole-charts').append(each.figure);
  }

  show(snapshot, store, {points, ages, range}) {
    const last = store.seconds.at(-1);
    const sum = (of) => (last ? [...last.sessions.values()].reduce((all, session) => all + of(session, last), 0) : null);
    const alive = snapshot.samplers.filter((sampler) => sampler.alive).length;
    const busy = last?.busy.reduce((all, us) => all + us, 0) / 1e6 / last?.seconds /
      (snapshot.samplers.length * snapshot.daemon.threads_per_sampler);
    this.facts.show('tokens_per_second', words.rate(sum(recent.tokens_per_second)));
    this.facts.show('steps_per_second', words.rate(sum(recent.steps_per_second)));
    this.facts.show('sessions', words.count(snapshot.sessions.length));
    this.facts.show('sequences', words.count(sum((session) => session.live_sequences)));
    this.facts.show('samplers', `${alive} of ${snapshot.samplers.length}`, alive < snapshot.samplers.length);
    this.facts.show('busy', words.share(busy));
    this.facts.show('up', words.duration(snapshot.daemon.up_seconds));
    for (const [name, chart] of this.charts) {
      const stage = store.stage_names.indexOf(name);
      const columns = chart.series.map((_, i) => points.map((point) => {
        const us = point.stages[stage]?.[i] ?? null;
        return us === null ? null : us / 1e6;
      }));
      chart.show(ages, columns, range);
    }
  }
}

class SessionPanel {
  constructor(name, open) {
    this.name = name;
    this.said = element('span', {class: 'said'});
    const facts = element('dl', {class: 'facts'});
    this.facts = new Facts(facts, [
      ['columns_decided', 'Tokens so far'],
      ['columns_failed', 'Columns answered with an error'],
      ['steps_taken', 'Steps taken so far'],
      ['live_sequences', 'Live sequences'],
      ['ring', 'Step slots in flight'],
      ['not_taken', 'Decided and not taken'],
      ['overlap', 'Decision time hidden'],
      ['column_delay', 'A column waits for a sampler'],
      ['hot_set', 'Draws from the hot set'],
      ['client', 'Client'],
      ['writers', 'Logits writers'],
      ['ranks', 'Ranks behind'],
      ['vocab', 'Vocabulary'],
      ['tp', 'Ranks'],
      ['max_batch', 'Largest batch'],
      ['bytes', 'Shared memory'],
    ]);
    this.tokens = new Chart({title: 'Tokens a second', series: ['tokens'], format: words.rate});
    this.steps = new Chart({
      title: 'A step’s time, on average',
      series: ['waiting for logits', 'deciding, hidden', 'deciding, the scheduler waits', 'waiting to be taken'],
      format: words.duration,
      stacked: true,
    });
    this.latency = new Chart({
      title: 'From logits complete to the last commit',
      series: ['p50', 'p99'],
      format: words.duration,
      scale: logarithmic,
    });
    this.ring = new Chart({
      title: 'Steps in flight',
      series: ['in flight', 'decided and not taken'],
      format: words.rate,
    });
    this.ranks = new Chart({title: 'How far the latest rank is behind', series: ['behind'], format: words.duration});
    const charts = element('div', {class: 'charts'});
    charts.append(...[this.tokens, this.steps, this.latency, this.ring, this.ranks].map((chart) => chart.figure));
    const head = element('summary', {}, element('h3', {}, name), this.said);
    this.root = element('details', {class: 'session'}, head, facts, charts);
    this.root.open = open;
    this.root.addEventListener('toggle', () => this.draw_charts());
  }

  show(session, store, pictures) {
    const {fault, state, counters, rings, client} = session;
    const now = store.seconds.at(-1);
    const rate = words.rate(now ? recent.tokens_per_second(now.sessions.get(this.name), now) : null);
    this.said.textContent = fault ? `cannot be shown: ${fault}` : `${state}, ${rate} tokens a second`;
    this.said.classList.toggle('bad', Boolean(fault));
    this.show_counts(counters, session);
    this.facts.show('ring', `${rings.in_flight} of ${rings.slots}`);
    this.facts.show('not_taken', words.count(rings.decided_not_taken));
    this.facts.show('client', client.alive ? 'lives' : 'GONE', !client.alive);
    this.facts.show('writers', `${session.writers_alive} of ${session.tp}`, session.writers_alive < session.tp);
    this.show_ranks(session.rank_behind_seconds);
    const total = pictures.totals.get(this.name);
    this.facts.show('overlap', words.share(recent.overlap(total)));
    this.facts.show('column_delay', words.duration(recent.column_delay(total)));
    this.facts.show('hot_set', session.hot_set?.size > 0 ? words.share(recent.hot_acceptance(total)) : null);
    this.pictures = pictures;
    this.draw_charts();
  }

  show_counts(counters, session) {
    this.facts.show('columns_decided', words.count(counters.columns_decided));
    this.facts.show('columns_failed', words.count(counters.columns_failed), counters.columns_failed > 0);
    this.facts.show('steps_taken', words.count(counters.steps_taken));
    this.facts.show('live_sequences', words.count(session.live_sequences));
    for (const key of ['vocab', 'tp', 'max_batch']) this.facts.show(key, words.count(session[key]));
    this.facts.show('bytes', words.bytes(session.bytes));
  }

  show_ranks(behind) {
    const waiting = behind.map((seconds, rank) => ({rank, seconds})).filter(({seconds}) => seconds > 0);
    const late = waiting.some(({seconds}) => seconds >= kLateRankSeconds);
    const text = waiting.map(({rank, seconds}) => `rank ${rank} by ${words.duration(seconds)}`).join(', ');
    this.facts.show('ranks', text || 'none', late);
  }

  draw_charts() {
    if (!this.root.open || !this.pictures) return;
    const {points, ages, range} = this.pictures;
    const values = (of) => points.map((point) => of(point.sessions.get(this.name) ?? null, point));
    const per_step = (us) => values((session) => recent.per_step(session, us));
    const state = (field, unit = 1) => values((session) => (session ? session[field] * unit : null));
    this.tokens.show(ages, [values(recent.tokens_per_second)], range);
    this.steps.show(ages, [
      per_step((session) => session.logits_wait_us),
      per_step((session) => Math.max(0, session.decision_us - session.exposed_us)),
      per_step((session) => Math.min(session.exposed_us, session.decision_us)),
      values(recent.until_taken),
    ], range);
    const quantiles = ['step_half_us', 'step_99_us'];
    this.latency.show(ages, quantiles.map((field) => values((session) => recent.known_seconds(session, field))), range);
    this.ring.show(ages, [state('steps_in_flight'), state('steps_decided_not_taken')], range);
    this.ranks.show(ages, [state('latest_rank_us', 1e-6)], range);
  }
}

export class SessionPanels {
  constructor() {
    this.list = document.getElementById('sessions');
    this.panels = new Map();
  }

  show(snapshot, store, pictures) {
    const named = new Map(snapshot.sessions.map((session) => [session.name || '(a session that cannot be read)', session]));
    document.getElementById('no-sessions').hidden = named.size > 0;
    for (const [name, panel] of this.panels) {
      if (named.has(name)) continue;
      panel.root.remove();
      this.panels.delete(name);
    }
    for (const [name, session] of named) {
      if (!this.panels.has(name)) {
        this.panels.set(name, new SessionPanel(name, this.panels.size < kSessionsOpened));
        this.list.append(this.panels.get(name).root);
      }
      this.panels.get(name).show(session, store, pictures);
    }
  }
}

export class SlowestPanel {
  constructor() {
    this.body = document.querySelector('#slowest tbody');
    this.note = document.getElementById('slowest-note');
  }

  show(snapshot, store) {
    const rows = store.slowest.map((column) => {
      const cell = (text, kind = '') => element('td', kind ? {class: kind} : {}, text);
      return element('tr', {},
        cell(column.session, 'name'), cell(column.uid), cell(words.duration(column.took_us / 1e6)),
        cell(words.duration(column.waited_us / 1e6)), cell(column.path.replaceAll('_', ' ')),
        cell(`${words.count(column.blocks_read)} of ${words.count(column.blocks)}`, 'wide'),
        cell(String(column.sampler), 'wide'));
    });
    this.body.replaceChildren(...rows);
    const missed = store.lost > 0 ? ` ${words.count(store.lost)} columns and steps were written over before they were read: neither this list nor the steps’ times have them.` : '';
    this.note.textContent = (rows.length > 0 ? 'Of the last minute, the slowest first.' : 'None in the last minute.') + missed;
  }
}

export class SamplerPanel {
  constructor() {
    this.body = document.querySelector('#samplers tbody');
    this.rows = [];
  }

  show(snapshot, store) {
    while (this.rows.length > snapshot.samplers.length) this.rows.pop().row.remove();
    while (this.rows.length < snapshot.samplers.length) this.add_row();
    snapshot.samplers.forEach((sampler, i) => this.show_row(this.rows[i], sampler, store.seconds.at(-1),
      snapshot.daemon.threads_per_sampler));
  }

  add_row() {
    const cells = Array.from({length: 6}, () => element('td'));
    cells[5].className = 'wide';
    const [bar, share] = [element('span'), element('span')];
    cells[2].append(element('span', {class: 'busy'}, element('span', {class: 'track', 'aria-hidden': 'true'}, bar), share));
    const row = element('tr', {}, ...cells);
    this.body.append(row);
    this.rows.push({row, cells, bar, share});
  }

  show_row({row, cells, bar, share}, sampler, last, threads) {
    const busy = last ? Math.min(1, last.busy[sampler.index] / 1e6 / last.seconds / threads) : null;
    row.classList.toggle('bad', !sampler.alive);
    cells[0].textContent = sampler.alive ? sampler.index : `${sampler.index} GONE`;
    cells[1].textContent = sampler.core < 0 ? 'any' : sampler.core;
    bar.style.width = `${(busy ?? 0) * 100}%`;
    share.textContent = words.share(busy);
    cells[3].textContent = words.count(sampler.columns_decided);
    cells[4].textContent = words.count(sampler.restarts);
    cells[5].textContent = words.duration(sampler.heartbeat_age_seconds);
  }
}
