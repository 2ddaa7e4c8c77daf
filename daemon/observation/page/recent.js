// The seconds that /recent.json has told so far, and series made of them.
const kMostPoints = 150;

function session_of(row, fields) {
  const session = {};
  fields.forEach((field, i) => { session[field] = row[i + 1]; });
  return session;
}

function largest(a, b) {
  if (a === null) return b;
  return b === null ? a : Math.max(a, b);
}

// What stands at a second's end, or is no sum: of several seconds the most is shown. All other fields are counts.
const kStates = new Set(['steps_in_flight', 'steps_decided_not_taken', 'live_sequences', 'latest_rank_us', 'step_half_us',
  'step_99_us']);

function merge_session(into, more) {
  for (const [field, value] of Object.entries(more)) {
    into[field] = kStates.has(field) ? Math.max(into[field], value) : into[field] + value;
  }
}

// Several seconds as one point. Of quantiles, which cannot be merged, the worst second's are shown.
function merged(seconds) {
  const point = structuredClone(seconds[0]);
  for (const second of seconds.slice(1)) {
    point.unix_ms = second.unix_ms;
    point.seconds += second.seconds;
    for (const [name, session] of second.sessions) {
      if (point.sessions.has(name)) merge_session(point.sessions.get(name), session);
      else point.sessions.set(name, {...session});
    }
    second.busy.forEach((us, i) => { point.busy[i] = (point.busy[i] ?? 0) + us; });
    point.stages = point.stages.map((quantiles, stage) =>
      quantiles.map((value, i) => largest(value, second.stages[stage][i])));
  }
  return point;
}

export class Recent {
  constructor() {
    this.began = null;
    this.seconds = [];
    this.stage_names = [];
    this.slowest = [];
    this.lost = 0;
  }

  get last_number() {
    return this.seconds.at(-1)?.number ?? 0;
  }

  // False: another daemon answers, of whose seconds `reply` may lack the first ones.
  take(reply) {
    if (this.began !== reply.began_unix_ms) {
      const is_whole = this.last_number === 0;
      this.began = reply.began_unix_ms;
      this.seconds = [];
      if (!is_whole) return false;
    }
    this.stage_names = reply.stages;
    this.slowest = reply.slowest;
    this.lost = reply.journal_entries_lost;
    for (const each of reply.seconds) {
      this.seconds.push({
        number: each.number,
        unix_ms: each.unix_ms,
        seconds: each.length_us / 1e6,
        sessions: new Map(each.sessions.map((row) => [row[0], session_of(row, reply.session_fields)])),
        busy: each.sampler_busy_us,
        stages: each.stages_us,
      });
    }
    this.seconds.splice(0, this.seconds.length - reply.seconds_kept);
    return true;
  }

  // What pictures of the last `range` seconds show: points, how many seconds ago each is, and the sessions of
  // all of them as one, by name.
  pictures(range) {
    const end = this.seconds.at(-1)?.unix_ms ?? 0;
    const seconds = this.seconds.filter((second) => second.unix_ms > end - range * 1000);
    // By number, so that a point keeps its seconds while the picture moves on.
    const width = Math.ceil(range / kMostPoints);
    const groups = new Map();
    for (const second of seconds) {
      const group = Math.floor(second.number / width);
      groups.set(group, [...(groups.get(group) ?? []), second]);
    }
    const points = [...groups.values()].map(merged);
    const ages = points.map((point) => (end - point.unix_ms) / 1000);
    return {range, points, ages, totals: seconds.length > 0 ? merged(seconds).sessions : new Map()};
  }
}

const ratio = (part, whole) => (whole > 0 ? part / whole : null);

export const tokens_per_second = (session, point) => (session ? session.columns_decided / point.seconds : null);
export const steps_per_second = (session, point) => (session ? session.steps_taken / point.seconds : null);
// Seconds a step, on average.
export const per_step = (session, us) => (session ? ratio(us(session) / 1e6, session.steps_taken) : null);
export const until_taken = (session) => (session ? ratio(session.taking_us / 1e6, session.takings) : null);
// Of a field that is 0 where nothing was counted.
export const known_seconds = (session, field) => (session && session[field] > 0 ? session[field] / 1e6 : null);
export const overlap = (session) =>
  (session && session.decision_us > 0 ? Math.min(1, Math.max(0, 1 - session.exposed_us / session.decision_us)) : null);
export const hot_acceptance = (session) =>
  (session ? ratio(session.draws_hot, session.draws_hot + session.draws_tail) : null);
export const column_delay = (session) =>
  (session ? ratio(session.column_delay_us / 1e6, session.columns_decided) : null);
